#pragma once

#include <deque>

#include "dsl/layers/activation.h"
#include "dsl/layers/batch_norm.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"

namespace cryolite {

/// relu(shortcut(x) + norm2(conv2(relu(norm1(conv1(x)))))). The shortcut is x, or a normalised convolution of size 1
/// where extents change. x: [in, width, height, batch] -> [out, width / stride, height / stride, batch], rounded up.
struct ResidualBlock {
    Conv2D conv1, conv2;
    BatchNorm norm1, norm2;
    Relu relu1, relu2;
    std::optional<Conv2D> fit;
    std::optional<BatchNorm> fit_norm;

    ResidualBlock(const std::string &path, int in, int out, int stride)
        : conv1(path + ".conv1", in, out, 3, {.stride = stride, .bias = false}),
          conv2(path + ".conv2", out, out, 3, {.bias = false}), norm1(path + ".bn1", out), norm2(path + ".bn2", out),
          relu1(path + ".relu1"), relu2(path + ".relu2") {
        if (in == out && stride == 1) return;
        fit.emplace(path + ".downsample.0", in, out, 1, Conv2DOptions{.stride = stride, .bias = false});
        fit_norm.emplace(path + ".downsample.1", out);
    }
    Tensor operator()(Tensor x) {
        const Tensor y = norm2(conv2(relu1(norm1(conv1(x)))));
        return relu2(y + (fit ? (*fit_norm)((*fit)(x)) : x));
    }
};

/// A residual network of three stages of blocks, each of half the extents and twice the channels of the one before.
/// x: [1, size, size, batch] -> [classes, batch].   Deep Residual Learning, He et al., 2016 (that for CIFAR-10).
struct ResidualNetwork {
    Conv2D conv;
    BatchNorm norm;
    Relu relu{"relu"};
    std::deque<ResidualBlock> blocks;
    MeanPool pool{"pool"};
    Linear head;

    ResidualNetwork(int channels, int blocks_of_stage, int classes)
        : conv("conv1", 1, channels, 3, {.bias = false}), norm("bn1", channels),
          head("fc", 4 * channels, classes, {.init = he(4 * channels), .in_innermost = true}) {
        int in = channels;
        for (int stage = 0; stage < 3; stage++)
            for (int i = 0; i < blocks_of_stage; i++) {
                const int out = channels << stage;
                blocks.emplace_back(fmt::format("layer{}.{}", stage + 1, i), in, out, in == out ? 1 : 2);
                in = out;
            }
    }
    Tensor operator()(Tensor x) {
        x = relu(norm(conv(x)));
        for (ResidualBlock &block : blocks) x = block(x);
        return head(pool(x));
    }
};

}  // namespace cryolite
