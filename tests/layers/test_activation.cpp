#include "dsl/layers/activation.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "dsl/layers/add.h"
#include "tests/support/gelu.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {
const std::vector<double> points = {-30, -3, -1, -0.1, 0.1, 0.5, 2, 30};

/// f of each number, as a kernel computes it in float32.
std::vector<float> in_float32(const std::vector<float> &x, const std::function<Expr(Expr)> &f) {
    const std::string bytes = in_child([&] {
        Halide::Buffer<float> in(const_cast<float *>(x.data()), int(x.size()));
        Func y("y");
        Var i("i");
        y(i) = f(in(i));
        y.vectorize(i, 8, Halide::TailStrategy::GuardWithIf);
        const Halide::Buffer<float> out = y.realize({int(x.size())});
        return std::string(reinterpret_cast<const char *>(out.data()), out.size_in_bytes());
    });
    std::vector<float> y(x.size());
    return std::memcpy(y.data(), bytes.data(), bytes.size()), y;
}

/// Each number of bf16 below 2^60, beyond which squares soon overflow, and numbers of float32 from everywhere, densely
/// where GELU bends.
std::vector<float> arguments_of_gelu() {
    std::vector<float> x;
    for (uint32_t upper = 0; upper < 0x10000; upper++) x.push_back(std::bit_cast<float>(upper << 16));
    for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 4099) x.push_back(std::bit_cast<float>(uint32_t(bits)));
    for (int i = -(12 << 16); i <= 12 << 16; i++) x.push_back(float(i) * 0x1p-16f);
    std::erase_if(x, [](float v) { return !(std::fabs(v) < 0x1p60f); });
    return x;
}
}  // namespace

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
                "[swiglu] the gate has shape [3, 5], but what it multiplies has shape [5, 3]: they must be equal");
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

// A step with cuBLASLt differs from one with Halide's products by no more than this in each GELU: the bounds of
// docs/cuda.md. The form with tanh subtracts from 1 what is nearly 1, so where GELU is nearly 0 the two share no digit.
TEST_CASE("activations: GELU by tanh in float32, as cuBLASLt has it, is the layer's to 2^-21 of its argument, its "
          "slope to 2^-18") {
    const std::vector<float> x = arguments_of_gelu();
    Gelu gelu("gelu");
    const std::vector<float> values = in_float32(x, [&](Expr v) { return gelu.value(v); }),
                             slopes = in_float32(x, [&](Expr v) { return gelu.slope(v); });
    double of_value = 0, of_slope = 0, exact_value = 0, exact_slope = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), gate = 1 / (1 + std::exp(-2 * u)),
                     slope = gate + (std::fabs(u) > 300 ? 0
                                                        : 2 * v * gate * (1 - gate) * std::sqrt(2 / M_PI) *
                                                              (1 + 3 * 0.044715 * v * v));
        const float t = tanh_of_gelu(x[i]);
        const double size = std::max(1.0, std::fabs(v));
        of_value = std::max(of_value, std::fabs(double(gelu_tanh(x[i], t)) - values[i]) / size);
        of_slope = std::max(of_slope, std::fabs(double(gelu_tanh_slope(x[i], t)) - slopes[i]));
        exact_value = std::max(exact_value, std::fabs(v * gate - values[i]) / size);
        exact_slope = std::max(exact_slope, std::fabs(slope - slopes[i]));
    }
    MESSAGE(x.size() << " numbers: " << of_value << ", slopes " << of_slope << "; of the layer itself " << exact_value
                     << ", slopes " << exact_slope);
    CHECK(x.size() > 2000000);
    CHECK(of_value <= 0x1p-21);
    CHECK(of_slope <= 0x1p-18);
    CHECK(exact_value <= 0x1p-22);
    CHECK(exact_slope <= 0x1p-18);
}

}  // namespace cryolite::test
