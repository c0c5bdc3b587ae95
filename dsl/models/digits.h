#pragma once

#include "dsl/layers/activation.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"
#include "dsl/model.h"

namespace cryolite {

/// A small convolutional network for 8x8 images of digits, in the manner of LeNet.
/// x: [1, 8, 8, batch] -> [classes, batch].
struct Digits : Classifier {
    GeneratorParam<int> channels{"channels", 16, "channels of the first convolution"};

    Conv2D conv1{"conv1", 1, channels, 3}, conv2{"conv2", channels, 2 * channels, 3};
    Relu relu1{"relu1"}, relu2{"relu2"}, relu3{"relu3"};
    MaxPool pool1{"pool1"}, pool2{"pool2"};
    Flatten flatten{"flatten"};
    Linear hidden{"hidden", 2 * channels * 2 * 2, 64, he(2 * channels * 2 * 2)};
    Linear head{"head", 64, classes, he(64)};

    Shape features() const override { return {1, 8, 8}; }
    Tensor forward(Tensor x) override {
        x = pool1(relu1(conv1(x)));
        x = pool2(relu2(conv2(x)));
        return head(relu3(hidden(flatten(x))));
    }
};

}  // namespace cryolite
