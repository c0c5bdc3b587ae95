#include "dsl/layers/convolution.h"

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
    CHECK_ERROR(layer.shape(Shape{3, 8, 2}),
                "[conv1] input [3, 8, 2] is not [channels, width, height, batch]");
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

}  // namespace cryolite::test
