// A classifier of images of 8 x 8 of the layers that no model of the library has: GroupNorm, both ways to make images
// larger and a transposed convolution.

#include "generators/cryolite.h"

using namespace cryolite;

struct Images : Classifier {
    GeneratorParam<int> channels{"channels", 6, "channels of every image inside"};

    Conv2D first{"first", 1, channels, 3, {.bias = false}}, second{"second", channels, channels, 3, {.stride = 2}};
    GroupNorm norm1{"norm1", 2, channels}, norm2{"norm2", 3, channels};
    Relu relu1{"relu1"}, relu2{"relu2"};
    MaxPool pool{"pool"};
    NearestResize nearest{"nearest", 2};
    BilinearResize bilinear{"bilinear", 2};
    ConvTranspose2D spread{"spread", channels, channels, 2, {.stride = 2}};
    MeanPool mean{"mean"};
    Linear head{"head", channels, classes, he(channels)};

    Shape features() const override { return {1, 8, 8}; }
    Tensor forward(Tensor x) override {
        x = pool(relu1(norm1(first(x))));
        x = nearest(x) + bilinear(x) + spread(x);
        return head(mean(relu2(norm2(second(x)))));
    }
};

int main(int argc, char **argv) { return program<Images>(argc, argv, {.name = "images"}); }
