#include "dsl/layers/activation.h"

#include <cmath>

#include "dsl/layers/add.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {
const std::vector<double> points = {-30, -3, -1, -0.1, 0.1, 0.5, 2, 30};
}

TEST_CASE("activations: gradients, in any number of dimensions") {
    Relu relu("relu");
    Gelu gelu("gelu");
    GeluExact exact("exact");
    SiLU silu("silu");
    Sigmoid sigmoid("sigmoid");
    for (Layer *layer : std::initializer_list<Layer *>{&relu, &gelu, &exact, &silu, &sigmoid}) {
        CAPTURE(layer->kind());
        check_gradients(LayerTester(*layer).input({13, 7}));
        check_gradients(LayerTester(*layer).input({3, 5, 2, 2}));
        check_gradients(LayerTester(*layer).input({8}, points));
    }
}

TEST_CASE("activations: the derived gradient of GELU and ReLU agrees") {
    Gelu gelu("gelu");
    Relu relu("relu");
    check_gradients(LayerTester(gelu).input({13, 7}).derived());
    check_gradients(LayerTester(relu).input({13, 7}).derived());
}

TEST_CASE("gated units: gradients of both inputs are the derived ones, values") {
    SwiGLU swiglu("swiglu");
    GeGLU geglu("geglu");
    check_gradients(LayerTester(swiglu).input({13, 7}).input({13, 7}).derived());
    check_gradients(LayerTester(geglu).input({3, 5, 2}).input({3, 5, 2}).derived());
    const std::vector<double> y = output_of(LayerTester(swiglu).input({3}, {-2, 0.5, 3}).input({3}, {1, 2, -1}));
    CHECK(y[0] == doctest::Approx(-2 / (1 + std::exp(2))).epsilon(1e-12));
    CHECK(y[1] == doctest::Approx(2 * 0.5 / (1 + std::exp(-0.5))).epsilon(1e-12));
    CHECK(y[2] == doctest::Approx(-3 / (1 + std::exp(-3))).epsilon(1e-12));
    CHECK_ERROR(swiglu.shape({Shape{3, 5}, Shape{5, 3}}),
                "[swiglu] the gate has shape [3, 5], but what it gates [5, 3]: they must be equal");
}

TEST_CASE("activations: values") {
    Relu relu("relu");
    Gelu gelu("gelu");
    GeluExact exact("exact");
    std::vector<double> r = output_of(LayerTester(relu).input({8}, points)),
                        g = output_of(LayerTester(gelu).input({8}, points)),
                        e = output_of(LayerTester(exact).input({8}, points));
    for (size_t i = 0; i < points.size(); i++) {
        double x = points[i];
        CHECK(r[i] == std::max(x, 0.0));
        double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        CHECK(g[i] == doctest::Approx(x / 2 * (1 + std::tanh(u))).epsilon(1e-9));
        CHECK(e[i] == doctest::Approx(x / 2 * (1 + std::erf(x / std::sqrt(2)))).epsilon(1e-9));
    }
}

TEST_CASE("Add: both inputs get the gradient; shapes must match") {
    Add add;
    check_gradients(LayerTester(add).input({13, 7}).input({13, 7}));
    CHECK_ERROR(add.shape({Shape{3, 2}, Shape{2, 3}}), "[add] adds [3, 2] and [2, 3]: the shapes must match");
}

}  // namespace cryolite::test
