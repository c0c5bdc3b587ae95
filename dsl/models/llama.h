#pragma once

#include <deque>

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/model.h"

namespace cryolite {

struct LlamaShape {
    int width, heads, kv_heads, hidden, layers;
    double rope_base;
};

/// A block of Llama: x + attention(norm(x)), then x + mlp(norm(x)), without biases.
struct LlamaBlock {
    RMSNorm norm1;
    Linear qkv;  ///< queries, keys and values of all heads, one product
    Attention attention;
    Linear project;
    RMSNorm norm2;
    Linear gate, up;
    SwiGLU act;
    Linear down;

    LlamaBlock(const std::string &path, const LlamaShape &s)
        : norm1(path + ".input_layernorm", s.width),
          qkv(path + ".self_attn.qkv_proj", s.width, s.width / s.heads * (s.heads + 2 * s.kv_heads), stored),
          attention(path + ".self_attn", {.heads = s.heads, .kv_heads = s.kv_heads, .rotary = Rotary{s.rope_base}}),
          project(path + ".self_attn.o_proj", s.width, s.width, stored),
          norm2(path + ".post_attention_layernorm", s.width), gate(path + ".mlp.gate_proj", s.width, s.hidden, stored),
          up(path + ".mlp.up_proj", s.width, s.hidden, stored), act(path + ".mlp.act_fn"),
          down(path + ".mlp.down_proj", s.hidden, s.width, stored) {}

    Tensor operator()(Tensor x) {
        x = x + project(attention(qkv(norm1(x))));
        const Tensor h = norm2(x);
        return x + down(act(gate(h), up(h)));
    }

private:
    static inline const LinearOptions stored{.bias = false, .in_innermost = true};
};

/// Llama: The Llama 3 Herd of Models, 2024; with a tied head, as SmolLM2 has it.
struct Llama : TextModel {
    GeneratorParam<int> layers{"layers", 4, "transformer blocks"};
    GeneratorParam<int> heads{"heads", 4, "attention heads"};
    GeneratorParam<int> kv_heads{"kv-heads", 2, "heads of keys and values, each shared by several of queries"};
    GeneratorParam<int> width{"width", 128, "channels of the residual stream"};
    GeneratorParam<int> hidden{"hidden", 384, "channels between the products of an MLP"};
    GeneratorParam<float> rope_base{"rope-base", 10000, "base of the rotary positions' wavelengths"};

    Embedding token{"model.embed_tokens", vocab, width};
    std::deque<LlamaBlock> blocks;
    RMSNorm norm{"model.norm", width};
    TiedHead head{token};

    Llama() {
        if (width % heads) fail("--width {} is not divisible by --heads {}", int(width), int(heads));
        for (int i = 0; i < layers; i++)
            blocks.emplace_back("model.layers." + std::to_string(i),
                                LlamaShape{width, heads, kv_heads, hidden, layers, rope_base});
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = token(tokens);
        for (LlamaBlock &block : blocks) x = block(x);
        return head(norm(x));
    }
};

}  // namespace cryolite
