#include "dsl/losses/mean_squared_error.h"

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("MeanSquaredError: gradients, as written and as derived") {
    MeanSquaredError layer;
    check_gradients(LayerTester(layer).input({3, 7}).input({3, 7}).derived());
    check_gradients(LayerTester(layer).input({1, 5}).input({1, 5}));
    check_gradients(LayerTester(layer).input({2, 5, 3}).input({2, 5, 3}));
}

TEST_CASE("MeanSquaredError: values") {
    MeanSquaredError layer;
    const auto y = output_of(LayerTester(layer).input({2, 2}, {1, 2, 3, -1}).input({2, 2}, {1, 0, 2.5, 3}));
    CHECK(y[0] == doctest::Approx((0 + 4 + 0.25 + 16) / 4).epsilon(1e-12));
}

TEST_CASE("MeanSquaredError: shapes") {
    MeanSquaredError layer;
    CHECK(layer.shape({Shape{3, 7}, Shape{3, 7}}) == Shape{1});
    CHECK_ERROR(layer.shape({Shape{3, 7}, Shape{7}}),
                "[loss] has outputs [3, 7] but targets [7]: the shapes must match");
}

}  // namespace cryolite::test
