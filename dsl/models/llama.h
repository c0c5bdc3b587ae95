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
    std::string path;
    int width, hidden;
    AttentionOptions heads;
    RMSNormOptions norms;
    bool qkv_bias;  ///< whether queries, keys and values have biases, as in Qwen 2.5
};

/// A block of Llama: x + attention(norm(x)), then x + mlp(norm(x)).   x: [width, context, batch] -> same.
struct LlamaBlock : LlamaShape {
    RMSNorm norm1{path + ".input_layernorm", width, norms};
    Linear qkv{path + ".self_attn.qkv_proj", width, heads.channels(width), {.bias = qkv_bias, .in_innermost = true}};
    Attention attention{path + ".self_attn", heads};
    Linear project{path + ".self_attn.o_proj", width, width, no_bias};
    RMSNorm norm2{path + ".post_attention_layernorm", width, norms};
    Linear gate{path + ".mlp.gate_proj", width, hidden, no_bias}, up{path + ".mlp.up_proj", width, hidden, no_bias};
    SwiGLU act{path + ".mlp.act_fn"};
    Linear down{path + ".mlp.down_proj", hidden, width, no_bias};

    Tensor operator()(Tensor x) {
        x = x + project(attention(qkv(norm1(x))));
        const Tensor h = norm2(x);
        return x + down(act(gate(h), up(h)));
    }
};

/// Llama: The Llama 3 Herd of Models, 2024. SmolLM2 has a tied head; Qwen 2.5 differs by `qkv_bias`.
/// tokens: [context, batch] int32 -> [vocab, context, batch].
struct Llama : TextModel {
    GeneratorParam<int> layers{"layers", 4, "transformer blocks"};
    GeneratorParam<int> heads{"heads", 4, "attention heads"};
    GeneratorParam<int> kv_heads{"kv-heads", 2, "heads of keys and values, each shared by several of queries"};
    GeneratorParam<int> width{"width", 128, "channels of the residual stream"};
    GeneratorParam<int> hidden{"hidden", 384, "channels between the products of an MLP"};
    GeneratorParam<bool> qkv_bias{"qkv-bias", false, "biases of queries, keys and values, as Qwen 2.5 has them"};
    GeneratorParam<bool> tied{"tied", true, "the head's weight is the table of tokens"};
    GeneratorParam<float> norm_eps{"norm-eps", 1e-5f, "added to the mean square in a norm"};
    GeneratorParam<float> rope_base{"rope-base", 10000, "base of the rotary positions' wavelengths"};
    GeneratorParam<float> rope_factor{"rope-factor", 1, "by which Llama 3 stretches long wavelengths; 1: not"};
    GeneratorParam<float> rope_low{"rope-low", 1, "wavelengths above rope-original / rope-low are stretched whole"};
    GeneratorParam<float> rope_high{"rope-high", 4, "wavelengths below rope-original / rope-high stay"};
    GeneratorParam<int> rope_original{"rope-original", 8192, "context that the base was trained with"};

    Embedding token{"model.embed_tokens", vocab, width};
    std::deque<LlamaBlock> blocks;
    RMSNorm norm{"model.norm", width, {.eps = norm_eps}};
    TiedHead tied_head{token};
    std::optional<Linear> own_head;

    Llama() {
        if (width % heads) fail("--width {} is not divisible by --heads {}", int(width), int(heads));
        const AttentionOptions attention{.heads = heads, .kv_heads = kv_heads, .rotary = rotary()};
        for (int i = 0; i < layers; i++)
            blocks.emplace_back(
                LlamaShape{"model.layers." + std::to_string(i), width, hidden, attention, {.eps = norm_eps}, qkv_bias});
        if (!tied) own_head.emplace("lm_head", int(width), int(vocab), no_bias);
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = token(tokens);
        for (LlamaBlock &block : blocks) x = block(x);
        x = norm(x);
        return tied ? tied_head(x) : (*own_head)(x);
    }

private:
    Rotary rotary() const { return {rope_base, rope_factor, rope_low, rope_high, rope_original}; }
};

}  // namespace cryolite
