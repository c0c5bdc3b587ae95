// Every kernel of a small convolutional network, on ragged shapes, with its loop schedule and without.

#include "dsl/layers/activation.h"
#include "dsl/layers/conv_transpose.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/group_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"
#include "dsl/layers/resize.h"
#include "tests/support/kernels.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Vision : Classifier {
    Conv2D stem{"stem", 3, 10, 3}, strided{"strided", 10, 20, 3, {.stride = 2, .groups = 2, .bias = false}},
        narrow{"narrow", 20, 7, 1};
    GroupNorm norm{"norm", 2, 10}, wide{"wide", 5, 20};
    Relu relu{"relu"};
    MaxPool2D maximum{"maximum", {.size = 3, .stride = 2, .padding = 1}};
    AveragePool2D average{"average", {.size = 2, .stride = 1}};
    NearestResize resize{"resize", 2};
    Patches patches{"patches", 2};
    Linear embed{"embed", 28, 19};
    MeanPool mean{"mean", 3};
    Linear head{"head", 19, classes};

    Shape features() const override { return {3, 14, 12}; }
    Tensor forward(Tensor x) override {
        x = relu(norm(stem(x)));               // [10, 14, 12, batch]
        x = wide(strided(maximum(x)));         // [20, 4, 3, batch]
        x = resize(average(narrow(x)));        // [7, 6, 4, batch]
        return head(mean(embed(patches(x))));  // [28, 6, batch]
    }
};

/// Images that grow.
struct Decoder : Classifier {
    Conv2D stem{"stem", 3, 7, 3};
    ConvTranspose2D strided{"strided", 7, 11, 4, {.stride = 2, .padding = 1}},
        dilated{"dilated", 11, 5, 3, {.dilation = 2, .bias = false}};
    BilinearResize resize{"resize", 2};
    MeanPool mean{"mean"};
    Linear head{"head", 5, classes};

    Shape features() const override { return {3, 7, 5}; }
    Tensor forward(Tensor x) override { return head(mean(dilated(resize(strided(stem(x)))))); }
};

/// Strides and dilations of more channels than a vector has lanes, and fewer than two.
struct Strides : Classifier {
    Conv2D one{"one", 3, 17, 5, {.stride = 2}}, two{"two", 17, 33, 3, {.dilation = 2, .bias = false}},
        three{"three", 33, 19, 2, {.stride = 3, .padding = 1}}, four{"four", 19, 16, 1};
    Relu relu{"relu"}, last{"last"};
    MeanPool mean{"mean"};
    Linear head{"head", 16, classes};

    Shape features() const override { return {3, 14, 11}; }
    Tensor forward(Tensor x) override { return head(mean(last(four(three(relu(two(one(x)))))))); }
};

const std::vector<std::pair<std::string, std::string>> arguments = {{"batch", "3"}};

}  // namespace

TEST_CASE("schedules: convolutions, pools and norms of images") { check_kernels(Compiled<Vision>(arguments)); }
TEST_CASE("schedules: gradients of convolutions, some rows of an image at a time") {
    Compiled<Strides> c({{"batch", "6"}}, [](Strides &n, Step &s) {
        add_lines(s, n,
                  "loops(one, d_parameter): rows_at_once=2 parts=3 unroll=1; "
                  "loops(two, d_parameter): rows_at_once=3 unroll=0",
                  "a");
    });
    check_kernels(c, 3e-5,
                  [](const StepProgram &, const ir::Kernel &k) { return k.name.find("weight") != k.name.npos; });
}
TEST_CASE("schedules: tiled loops of images" * slow()) {
    check_tiled(Compiled<Vision>(arguments));
    check_tiled(Compiled<Decoder>(arguments));
}
TEST_CASE("schedules: images, accumulating over micro-batches" * slow()) {
    check_kernels(Compiled<Vision>(arguments, {}, {.accumulate = true}));
    check_kernels(Compiled<Decoder>(arguments, {}, {.accumulate = true}));
}

TEST_CASE("schedules: convolutions with strides, their updates where their gradients are made") {
    check_kernels(Compiled<Strides>({{"batch", "5"}}, {}, {.update = "backward"}));
}

TEST_CASE("schedules: transposed convolutions and bilinear resizing" * slow()) {
    check_kernels(Compiled<Decoder>(arguments));
}

}  // namespace cryolite::test
