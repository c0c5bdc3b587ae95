// Layers against PyTorch's, from goldens.json, which tests/parity/make_goldens.py writes: values of odd shapes, with
// weights and inputs from a formula.

#include "dsl/layers/conv_transpose.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/recurrence.h"
#include "dsl/layers/resize.h"
#include "dsl/losses/binary_cross_entropy.h"
#include "dsl/losses/cross_entropy.h"
#include "dsl/losses/distillation.h"
#include "dsl/losses/huber.h"
#include "dsl/losses/mean_squared_error.h"
#include "tests/support/compiler.h"
#include "tests/support/goldens.h"

namespace cryolite::test {

namespace {

const json &golden(const std::string &name) { return goldens().at("layers").at(name); }

void check_golden(const std::string &name, const LayerTester &tester) {
    const std::vector<double> found = output_of(tester), expected = golden(name);
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); i++) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-8));
}

/// A convolution of 3 channels into 5, on images of 7 x 5.
template <typename L> void check_golden_images(const std::string &name, L &layer) {
    const Shape x{3, 7, 5, 2};
    check_golden(name, LayerTester(layer)
                           .input(x, formula("x", x.size()))
                           .weight("weight", formula("w", layer.W.shape().size()))
                           .weight("bias", formula("b", 5)));
}

}  // namespace

TEST_CASE("ConvTranspose2D: PyTorch's values; gradients; what does not fit is refused") {
    struct Way {
        const char *name;
        int size;
        ConvTranspose2DOptions options;
    };
    for (const Way &w :
         {Way{"transposed", 3, {}}, Way{"transposed strided", 4, {.stride = 2, .padding = 1}},
          Way{"transposed dilated", 3, {.stride = 3, .padding = 2, .dilation = 2, .output_padding = 1}}}) {
        CAPTURE(w.name);
        ConvTranspose2D layer("up", 3, 5, w.size, w.options);
        check_golden_images(w.name, layer);
        check_gradients(LayerTester(layer).input({3, 5, 3, 2}));
    }
    ConvTranspose2D layer("up", 3, 5, 4, {.stride = 2, .padding = 1, .bias = false});
    CHECK(layer.shape(Shape{3, 7, 5, 2}) == Shape{5, 14, 10, 2});
    CHECK_ERROR(layer.shape(Shape{4, 7, 5, 2}), "[up] input has 4 channels, expected 3");
    CHECK_ERROR(layer.shape(Shape{3, 7, 2}), "[up] input [3, 7, 2] is not [channels, width, height, batch]");
    CHECK_ERROR(ConvTranspose2D("up", 3, 5, 3, {.padding = 3}).shape(Shape{3, 2, 2, 2}),
                "[up] a padding of 3 leaves nothing of input [3, 2, 2, 2]");
    CHECK_ERROR(ConvTranspose2D("up", 3, 5, 3, {.stride = 2, .output_padding = 2}),
                "[up] has an output padding of 2, expected 0 to less than the stride 2");
}

TEST_CASE("Conv2D: PyTorch's values") {
    struct Way {
        const char *name;
        int size;
        Conv2DOptions options;
    };
    for (const Way &w : {Way{"convolution", 3, {}}, Way{"convolution strided", 4, {.stride = 3, .padding = 2}},
                         Way{"convolution dilated", 3, {.stride = 2, .padding = 3, .dilation = 2}}}) {
        CAPTURE(w.name);
        Conv2D layer("conv", 3, 5, w.size, w.options);
        check_golden_images(w.name, layer);
    }
}

TEST_CASE("LinearRecurrence: PyTorch's values") {
    LinearRecurrence layer("scan");
    const Shape s{5, 7, 2};
    check_golden("recurrence", LayerTester(layer).input(s, formula("a", s.size())).input(s, formula("x", s.size())));
}

TEST_CASE("BilinearResize: PyTorch's values; gradients") {
    for (int factor : {1, 2, 3}) {
        CAPTURE(factor);
        BilinearResize layer("resize", factor);
        const Shape x{3, 7, 5, 2};
        check_golden(fmt::format("bilinear {}", factor), LayerTester(layer).input(x, formula("x", x.size())));
        check_gradients(LayerTester(layer).input({3, 5, 3, 2}));
        check_gradients(LayerTester(layer).input({2, 1, 2, 2}));
    }
    CHECK_ERROR(BilinearResize("resize", 0), "[resize] has a factor of 0, expected at least 1");
    CHECK_ERROR(BilinearResize("resize", 2).shape(Shape{3, 7}),
                "[resize] input [3, 7] is not [channels, width, height, batch]");
}

TEST_CASE("losses: PyTorch's values on odd shapes") {
    const Shape s{11, 7};
    const std::vector<double> x = formula("x", 77), t = formula("t", 77);
    std::vector<double> probabilities = t;
    for (double &p : probabilities) p = (p + 1) / 2;
    Huber huber("loss", 0.4);
    BinaryCrossEntropy yes_or_no;
    MeanSquaredError squared;
    Distillation taught("loss", 2.5);
    check_golden("huber", LayerTester(huber).input(s, x).input(s, t));
    check_golden("binary cross-entropy", LayerTester(yes_or_no).input(s, x).input(s, probabilities));
    check_golden("squared error", LayerTester(squared).input(s, x).input(s, t));
    check_golden("distillation", LayerTester(taught).input(s, x).input(s, t));
}

}  // namespace cryolite::test
