#include "dsl/losses/cross_entropy.h"

#include <cmath>

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("CrossEntropy: gradients") {
    CrossEntropy layer;
    check_gradients(LayerTester(layer).input({11, 7}).ids({7}, 11));
    check_gradients(LayerTester(layer).input({11, 7, 3}).ids({7, 3}, 11));
    check_gradients(LayerTester(layer).input({1, 3}).ids({3}, 1));
}

TEST_CASE("CrossEntropy: values, also where exp alone would overflow") {
    CrossEntropy layer;
    std::vector<double> y =
        output_of(LayerTester(layer).input({3, 2}, {1, 2, 3, -1, 0, 1}).ids({2}, 3, {2, 0}));
    double e = std::exp(1.0), z = std::log(1 + 1 / e + 1 / e / e);
    CHECK(y[0] == doctest::Approx((z + (z + 2)) / 2).epsilon(1e-12));
    y = output_of(LayerTester(layer).input({2, 1}, {1e4, -1e4}).ids({1}, 2, {1}));
    CHECK(y[0] == doctest::Approx(2e4).epsilon(1e-12));
}

TEST_CASE("CrossEntropy: shapes") {
    CrossEntropy layer;
    CHECK(layer.shape({Shape{11, 7, 3}, Shape{7, 3}}) == Shape{1});
    CHECK_ERROR(
        layer.shape({Shape{11, 7, 3}, Shape{7}}),
        "[loss] has outputs [11, 7, 3] but targets [7]: one target for each row is expected");
}

}  // namespace cryolite::test
