#include "dsl/layers/layer_norm.h"

#include <cmath>

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("LayerNorm: the gradient on ragged shapes is the derived one") {
    LayerNorm layer("norm", 13);
    check_gradients(LayerTester(layer).input({13, 7}).derived());
    check_gradients(LayerTester(layer).input({13, 3, 2, 2}));
}

TEST_CASE("LayerNorm: a row of equal elements is kept finite by eps") {
    LayerNorm layer("norm", 4, 1e-5);
    std::vector<double> y = output_of(LayerTester(layer).input({4, 1}, {3, 3, 3, 3}));
    for (double v : y) CHECK(std::abs(v) < 2);  // the bias alone
    check_gradients(LayerTester(layer).input({4, 1}, {3, 3, 3, 3.5}));
}

TEST_CASE("LayerNorm: shapes") {
    LayerNorm layer("h.0.ln_1", 13);
    CHECK(layer.shape(Shape{13, 4, 2}) == Shape{13, 4, 2});
    CHECK_ERROR(layer.shape(Shape{12, 4}), "[h.0.ln_1] input has 12 channels, expected 13");
}

}  // namespace cryolite::test
