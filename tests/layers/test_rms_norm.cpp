#include "dsl/layers/rms_norm.h"

#include <cmath>

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("RMSNorm: the gradient on ragged shapes is the derived one") {
    RMSNorm layer("norm", 13), gemma("gemma", 7, {.eps = 1e-6, .one_plus = true}), one("one", 1);
    check_gradients(LayerTester(layer).input({13, 11}).derived());
    check_gradients(LayerTester(gemma).input({7, 3, 2}).derived());
    check_gradients(LayerTester(one).input({1, 5}));
}

TEST_CASE("RMSNorm: a row is divided by its root mean square") {
    constexpr int width = 5;
    constexpr double eps = 1e-3;
    RMSNorm layer("norm", width, {.eps = eps});
    const std::vector<double> x = {3, -1, 2, 0.5, -4, 0.1, 7, -0.3, 2, 1};
    const std::vector<double> y = output_of(LayerTester(layer).input({width, 2}, x));
    auto unscaled = [&](int i, int r) {
        double square = 0;
        for (int k = 0; k < width; k++) square += x[size_t(r * width + k)] * x[size_t(r * width + k)] / width;
        return x[size_t(r * width + i)] / std::sqrt(square + eps);
    };
    for (int i = 0; i < width; i++) {  // both rows have one gain
        const double gain = y[size_t(i)] / unscaled(i, 0);
        CHECK(gain != 0);
        CHECK(y[size_t(width + i)] == doctest::Approx(gain * unscaled(i, 1)).epsilon(1e-12));
    }
}

TEST_CASE("RMSNorm: shapes") {
    RMSNorm layer("model.norm", 13);
    CHECK(layer.shape(Shape{13, 4, 2}) == Shape{13, 4, 2});
    CHECK_ERROR(layer.shape(Shape{12, 4}), "[model.norm] input has 12 channels, expected 13");
    CHECK_ERROR(RMSNorm("model.norm", 13, {.eps = 0}), "[model.norm] eps is 0, expected more than 0");
}

}  // namespace cryolite::test
