// A language model of the shape of SmolLM2, made of library layers, without a line of a schedule.
//   ./cryolite train smollm2.cpp --data my.txt      (its characters; --tokenizer gpt2 or a tokenizer.json for tokens)
// SmolLM2 135M has --layers 30 --heads 9 --kv-heads 3 --width 576 --hidden 1536 --rope-base 100000 --vocab 49152.

#include "generators/cryolite.h"

using namespace cryolite;

struct Sizes {
    std::string p;  ///< path: names are those of Hugging Face's Llama, but q, k and v are one weight here
    int width, hidden;
    AttentionOptions heads;
};

struct Block : Sizes {
    RMSNorm norm1{p + ".input_layernorm", width}, norm2{p + ".post_attention_layernorm", width};
    Linear qkv{p + ".self_attn.qkv_proj", width, heads.channels(width), no_bias};
    Linear project{p + ".self_attn.o_proj", width, width, no_bias}, down{p + ".mlp.down_proj", hidden, width, no_bias};
    Linear gate{p + ".mlp.gate_proj", width, hidden, no_bias}, up{p + ".mlp.up_proj", width, hidden, no_bias};
    Tensor operator()(Tensor x) {
        x = x + project(attention(qkv(norm1(x)), heads));
        return x + down(swiglu(gate(norm2(x)), up(norm2(x))));  // equal calls are made once
    }
};

struct SmolLM2 : TextModel {
    GeneratorParam<int> layers{"layers", 4, "transformer blocks"};
    GeneratorParam<int> heads{"heads", 4, "attention heads"};
    GeneratorParam<int> kv_heads{"kv-heads", 2, "heads of keys and values, each shared by several of queries"};
    GeneratorParam<int> width{"width", 128, "channels of the residual stream"};
    GeneratorParam<int> hidden{"hidden", 384, "channels between the products of an MLP"};
    GeneratorParam<float> rope_base{"rope-base", 10000, "base of the rotary positions' wavelengths"};

    Embedding token{"model.embed_tokens", vocab, width};
    std::deque<Block> blocks;
    RMSNorm norm{"model.norm", width};

    SmolLM2() {
        const AttentionOptions shape{.heads = heads, .kv_heads = kv_heads, .rotary = Rotary{.base = rope_base}};
        for (int i = 0; i < layers; i++)
            blocks.emplace_back(Sizes{"model.layers." + std::to_string(i), width, hidden, shape});
    }
    Tensor forward(Tensor tokens) override {
        Tensor x = token(tokens);
        for (Block &block : blocks) x = block(x);
        return token.transposed(norm(x));
    }
};

int main(int argc, char **argv) { return program<SmolLM2>(argc, argv, {"smollm2"}); }
