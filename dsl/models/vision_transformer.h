#pragma once

#include <deque>

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"

namespace cryolite {

/// x + attention(norm(x)), then x + mlp(norm(x)); every patch sees all.   x: [width, patches, batch] -> same.
struct VisionBlock {
    LayerNorm norm1;
    Linear qkv;
    Attention attention;
    Linear project;
    LayerNorm norm2;
    Linear up;
    Gelu gelu;
    Linear down;

    VisionBlock(const std::string &path, int width, int heads)
        : norm1(path + ".norm1", width), qkv(path + ".attn.qkv", width, 3 * width, stored),
          attention(path + ".attn", {.heads = heads, .causal = false}),
          project(path + ".attn.proj", width, width, stored), norm2(path + ".norm2", width),
          up(path + ".mlp.fc1", width, 4 * width, stored), gelu(path + ".mlp.act"),
          down(path + ".mlp.fc2", 4 * width, width, stored) {}

    Tensor operator()(Tensor x) {
        x = x + project(attention(qkv(norm1(x))));
        return x + down(gelu(up(norm2(x))));
    }

private:
    static inline const LinearOptions stored{.in_innermost = true};
};

/// A vision transformer that takes the mean over its patches.   x: [1, size, size, batch] -> [classes, batch].
/// An Image is Worth 16x16 Words, Dosovitskiy et al., 2021; the mean: Better plain ViT baselines, Beyer et al., 2022.
struct VisionTransformer {
    Patches patches;
    Linear embed;
    Positions position;
    std::deque<VisionBlock> blocks;
    LayerNorm norm;
    MeanPool pool{"pool", 3};
    Linear head;

    VisionTransformer(int size, int patch, int width, int heads, int layers, int classes)
        : patches("patches", patch),
          embed("patch_embed.proj", patch * patch, width, {.init = normal(1.0 / patch), .in_innermost = true}),
          position("pos_embed", size / patch * (size / patch), width), norm("norm", width),
          head("head", width, classes, {.in_innermost = true}) {
        for (int i = 0; i < layers; i++) blocks.emplace_back("blocks." + std::to_string(i), width, heads);
    }
    Tensor operator()(Tensor x) {
        x = position(embed(patches(x)));
        for (VisionBlock &block : blocks) x = block(x);
        return head(pool(norm(x)));
    }
};

}  // namespace cryolite
