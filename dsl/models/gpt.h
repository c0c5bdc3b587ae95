#pragma once

#include <deque>

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/dropout.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/model.h"

namespace cryolite {

/// A transformer block: x + attention(norm(x)), then x + mlp(norm(x)).   x: [width, context, batch] -> same.
struct Block {
    const std::string path;
    LayerNorm norm1;
    Linear qkv;
    CausalAttention attention;
    Linear project;
    LayerNorm norm2;
    Linear up;
    Gelu gelu;
    Linear down;
    Dropout drop1, drop2;  ///< of what attention adds to x, and of what the MLP adds

    /// The initial weights of projections onto the residual stream are divided by sqrt(2 layers), as in GPT-2.
    Block(const std::string &path, int width, int heads, int layers, double dropout = 0)
        : path(path), norm1(path + ".ln_1", width), qkv(path + ".attn.c_attn", width, 3 * width),
          attention(path + ".attn", heads),
          project(path + ".attn.c_proj", width, width, normal(0.02 / std::sqrt(2.0 * layers))),
          norm2(path + ".ln_2", width), up(path + ".mlp.c_fc", width, 4 * width), gelu(path + ".mlp.act"),
          down(path + ".mlp.c_proj", 4 * width, width, normal(0.02 / std::sqrt(2.0 * layers))),
          drop1(path + ".attn.resid_dropout", dropout), drop2(path + ".mlp.dropout", dropout) {}

    Tensor operator()(Tensor x) {
        x = x + drop1(project(attention(qkv(norm1(x)))));
        return x + drop2(down(gelu(up(norm2(x)))));
    }
};

/// GPT-2: Language Models are Unsupervised Multitask Learners, Radford et al., 2019.
/// tokens: [context, batch] int32 -> [vocab, context, batch].
struct Gpt : TextModel {
    GeneratorParam<int> layers{"layers", 4, "transformer blocks"};
    GeneratorParam<int> heads{"heads", 4, "attention heads"};
    GeneratorParam<int> width{"width", 128, "channels of the residual stream"};
    GeneratorParam<int> positions{"positions", context, "rows of the position table"};
    GeneratorParam<float> dropout{"dropout", 0, "share of embeddings and of what blocks add that a step drops"};

    Embedding token{"wte", vocab, width};
    Positions position{"wpe", positions, width};
    Dropout drop{"drop", dropout};
    std::deque<Block> blocks;
    LayerNorm norm{"ln_f", width};
    TiedHead head{token};

    Gpt() {
        for (int i = 0; i < layers; i++) blocks.emplace_back("h." + std::to_string(i), width, heads, layers, dropout);
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = drop(position(token(tokens)));
        for (Block &block : blocks) x = block(x);
        return head(norm(x));
    }
};

}  // namespace cryolite
