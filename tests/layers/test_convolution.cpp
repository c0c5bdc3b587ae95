#include "dsl/layers/convolution.h"

#include <cmath>

#include "dsl/layers/group_norm.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"
#include "dsl/layers/resize.h"

#include "tests/support/compiler.h"

namespace cryolite::test {

TEST_CASE("Conv2D: gradients on ragged images, kernels of 1, 3 and 5") {
    for (int size : {1, 3, 5}) {
        CAPTURE(size);
        Conv2D layer("conv", 3, 5, size);
        check_gradients(LayerTester(layer).input({3, 7, 6, 2}).derived());
    }
    Conv2D wider("conv", 1, 2, 5);  // a kernel larger than the image
    check_gradients(LayerTester(wider).input({1, 2, 3, 2}));
}

TEST_CASE("Conv2D: zeros around the image") {
    Conv2D layer("conv", 1, 1, 3);
    // Equal to the difference of two single pixels: the response of one is the flipped kernel, cut
    // at the edge.
    std::vector<double> corner(9), middle(9), none(9);
    corner[0] = middle[4] = 1;
    std::vector<double> a = output_of(LayerTester(layer).input({1, 3, 3, 1}, corner)),
                        b = output_of(LayerTester(layer).input({1, 3, 3, 1}, middle)),
                        bias = output_of(LayerTester(layer).input({1, 3, 3, 1}, none));
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++) {
            double moved = x < 2 && y < 2 ? b[size_t((y + 1) * 3 + x + 1)] : bias[0];
            CHECK(a[size_t(y * 3 + x)] == doctest::Approx(moved));
        }
}

TEST_CASE("Conv2D: shapes") {
    Conv2D layer("conv1", 3, 5, 3);
    CHECK(layer.shape(Shape{3, 8, 6, 2}) == Shape{5, 8, 6, 2});
    CHECK_ERROR(layer.shape(Shape{4, 8, 8, 2}), "[conv1] input has 4 channels, expected 3");
    CHECK_ERROR(layer.shape(Shape{3, 8, 2}), "[conv1] input [3, 8, 2] is not [channels, width, height, batch]");
    CHECK_ERROR(Conv2D("conv1", 3, 5, 4), "[conv1] kernel size 4 is even, expected an odd one");
}

TEST_CASE("AveragePool, MaxPool, Flatten: gradients") {
    AveragePool average("average");
    MaxPool maximum("maximum");
    Flatten flat("flat");
    check_gradients(LayerTester(average).input({3, 6, 4, 3}).derived());
    check_gradients(LayerTester(maximum).input({3, 6, 4, 3}));
    check_gradients(LayerTester(flat).input({3, 6, 4, 3}));
}

TEST_CASE("MaxPool: the gradient of equal elements goes to the first of them, once") {
    MaxPool layer("pool");
    std::string values = in_child([&] {
        Func x("x"), dy("dy");
        Var c, u, v, n;
        x(c, u, v, n) = cast<double>(0);
        dy(c, u, v, n) = cast<double>(1);
        Call call;
        call.inputs = {Array(x, {1, 4, 2, 1})};
        Func dx = layer.gradient(call, Array(dy, {1, 2, 1, 1})).begin()->second;
        Halide::Buffer<double> d = dx.realize({1, 4, 2, 1});
        std::string text;
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < 4; i++) text += fmt::format("{} ", d(0, i, j, 0));
        return text;
    });
    CHECK(values == "1 0 1 0 0 0 0 0 ");
}

TEST_CASE("pooling and Flatten: shapes") {
    MaxPool pool("pool");
    Flatten flat("flat");
    CHECK(pool.shape(Shape{3, 8, 6, 2}) == Shape{3, 4, 3, 2});
    CHECK_ERROR(pool.shape(Shape{3, 7, 6, 2}),
                "[pool] input [3, 7, 6, 2] is not [channels, even width, even height, batch]");
    CHECK(flat.shape(Shape{3, 8, 6, 2}) == Shape{144, 2});
}

TEST_CASE("Conv2D: stride, padding, dilation, groups: gradients on ragged images") {
    Conv2D strided("strided", 3, 5, 3, {.stride = 2}), dilated("dilated", 2, 3, 3, {.dilation = 2}),
        grouped("grouped", 6, 4, 3, {.stride = 2, .padding = 0, .groups = 2}),
        even("even", 2, 3, 2, {.stride = 3, .padding = 1}), bare("bare", 2, 2, 1, {.bias = false});
    check_gradients(LayerTester(strided).input({3, 7, 6, 2}));
    check_gradients(LayerTester(dilated).input({2, 7, 6, 2}));
    check_gradients(LayerTester(grouped).input({6, 7, 6, 2}));
    check_gradients(LayerTester(even).input({2, 7, 9, 2}));
    check_gradients(LayerTester(bare).input({2, 3, 5, 2}));
}

TEST_CASE("Conv2D: a window of ones sums what it covers") {
    Conv2D layer("conv", 4, 2, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2, .bias = false});
    const Shape in{4, 8, 7, 1}, out = layer.shape(in);
    CHECK(out == Shape{2, 3, 3, 1});
    // By linearity: each pixel by itself changes just those outputs whose window has it, in its group.
    std::vector<double> none(size_t(in.size()));
    for (int pixel : {0, 4 * 3 + 1, 4 * (8 * 3 + 5) + 2}) {
        std::vector<double> x = none;
        x[size_t(pixel)] = 1;
        const std::vector<double> y = output_of(LayerTester(layer).input(in, x));
        const int c = pixel % 4, u = pixel / 4 % 8, v = pixel / 32;
        for (int i = 0; i < int(y.size()); i++) {
            const int o = i % 2, a = i / 2 % 3, b = i / 6;
            auto covers = [](int place, int input) {
                const int k = input - (2 * place - 1);
                return k >= 0 && k <= 4 && k % 2 == 0;
            };
            CHECK((y[size_t(i)] != 0) == (c / 2 == o && covers(a, u) && covers(b, v)));
        }
    }
}

TEST_CASE("Conv2D, pools, patches: shapes") {
    CHECK(Conv2D("conv", 3, 8, 7, {.stride = 2, .padding = 3}).shape(Shape{3, 224, 224, 1}) == Shape{8, 112, 112, 1});
    CHECK_ERROR(Conv2D("conv", 3, 8, 3, {.groups = 2}), "[conv] 2 groups do not divide 3 and 8 channels");
    CHECK_ERROR(Conv2D("conv", 3, 8, 3, {.stride = 0}), "[conv] has a window of size 3, stride 0");
    Conv2D large("conv", 3, 8, 5, {.padding = 0});
    CHECK_ERROR(large.shape(Shape{3, 4, 8, 1}),
                "[conv] a window of 5 does not fit into input [3, 4, 8, 1] with padding 0");
    CHECK(MaxPool2D("pool", {.size = 3, .stride = 2, .padding = 1}).shape(Shape{3, 28, 28, 2}) == Shape{3, 14, 14, 2});
    CHECK_ERROR(MaxPool2D("pool", {.size = 3, .padding = 2}), "[pool] padding 2 is more than half of the window's 3");
    CHECK(Patches("patches", 4).shape(Shape{3, 28, 28, 2}) == Shape{48, 49, 2});
    CHECK_ERROR(Patches("patches", 3).shape(Shape{3, 28, 28, 2}),
                "[patches] patches of 3 do not divide input [3, 28, 28, 2]");
    CHECK(MeanPool("mean").shape(Shape{3, 7, 7, 2}) == Shape{3, 2});
    CHECK_ERROR(MeanPool("mean").shape(Shape{3, 2}), "[mean] input [3, 2] has not 4 dimensions");
    CHECK_ERROR(GroupNorm("norm", 4, 6), "[norm] 4 groups do not divide 6 channels");
}

TEST_CASE("pools with overlapping windows, means, patches, resizing: gradients") {
    AveragePool2D average("average", {.size = 3, .stride = 2, .padding = 1});
    MaxPool2D maximum("maximum", {.size = 3, .stride = 2, .padding = 1}), single("single", {.size = 2, .stride = 1});
    MeanPool mean("mean"), sequence("sequence", 3);
    Patches patches("patches", 2);
    NearestResize resize("resize", 3);
    check_gradients(LayerTester(average).input({3, 7, 6, 2}));
    check_gradients(LayerTester(maximum).input({3, 7, 6, 2}));
    check_gradients(LayerTester(single).input({2, 5, 4, 2}));
    check_gradients(LayerTester(mean).input({3, 5, 4, 2}));
    check_gradients(LayerTester(sequence).input({3, 7, 2}));
    check_gradients(LayerTester(patches).input({3, 6, 4, 2}));
    check_gradients(LayerTester(resize).input({3, 3, 2, 2}));
}

TEST_CASE("MeanPool, GroupNorm: what they are means of") {
    constexpr int channels = 4, width = 3, height = 5, batch = 2, places = width * height;
    MeanPool mean("mean");
    GroupNorm norm("norm", 2, channels);
    const Shape shape{channels, width, height, batch};
    std::vector<double> x(size_t(shape.size()));
    for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(double(i * i % 89));
    const std::vector<double> m = output_of(LayerTester(mean).input(shape, x)),
                              y = output_of(LayerTester(norm).input(shape, x));
    auto at = [&](const std::vector<double> &a, int c, int p, int n) {
        return a[size_t(c + channels * (p + places * n))];
    };
    for (int c = 0; c < channels; c++) {
        for (int n = 0; n < batch; n++) {
            double sum = 0;
            for (int p = 0; p < places; p++) sum += at(x, c, p, n);
            CHECK(m[size_t(c + channels * n)] == doctest::Approx(sum / places).epsilon(1e-12));
        }
        // y = g xhat + b: the same line through all images and places.
        auto xhat = [&](int p, int n) {
            double total = 0, square = 0;
            const int first = c / 2 * 2, count = 2 * places;
            for (int k = first; k < first + 2; k++)
                for (int j = 0; j < places; j++) total += at(x, k, j, n) / count;
            for (int k = first; k < first + 2; k++)
                for (int j = 0; j < places; j++) square += std::pow(at(x, k, j, n) - total, 2) / count;
            return (at(x, c, p, n) - total) / std::sqrt(square + 1e-5);
        };
        const double gain = (at(y, c, 1, 0) - at(y, c, 0, 0)) / (xhat(1, 0) - xhat(0, 0));
        const double bias = at(y, c, 0, 0) - gain * xhat(0, 0);
        for (int n = 0; n < batch; n++)
            for (int p = 0; p < places; p++)
                CHECK(at(y, c, p, n) == doctest::Approx(gain * xhat(p, n) + bias).epsilon(1e-9));
    }
}

TEST_CASE("GroupNorm: gradients") {
    GroupNorm layer("norm", 2, 6), one("one", 1, 5), each("each", 3, 3);
    check_gradients(LayerTester(layer).input({6, 4, 3, 2}));
    check_gradients(LayerTester(one).input({5, 7, 1, 2}));
    check_gradients(LayerTester(each).input({3, 5, 2, 2}));
}

}  // namespace cryolite::test
