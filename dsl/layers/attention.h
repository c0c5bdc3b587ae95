#pragma once

#include "dsl/layer.h"
#include "dsl/layers/attention_algorithm.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/tensor.h"

namespace cryolite {

/// RMSNorm over the channels of every head of queries and of keys, before rotary positions. All heads of q have one set
/// of gains, all heads of k another, as in Qwen 3.   Scaling Vision Transformers to 22 Billion Parameters, 2023.
struct HeadNorm {
    int size;  ///< channels of a head
    double eps = 1e-6;
};

struct AttentionOptions {
    int heads = 1;
    int kv_heads = 0;  ///< heads of keys and values, each shared by heads / kv_heads of queries; 0: as many as heads
    bool causal = true;
    int window = 0;          ///< positions see those less than `window` away; 0: all
    bool documents = false;  ///< one more input, [context, batch], of Documents: positions see only their document
    bool mask = false;       ///< one more input, [context, batch], of PaddingMask: positions where it is 0 are hidden
    std::optional<Rotary> rotary = {};
    std::optional<HeadNorm> head_norm = {};

    /// Channels of the input: those of queries, keys and values together, where queries have `width`.
    int channels(int width) const { return width + 2 * (kv_heads ? kv_heads : heads) * (width / heads); }
};

/// Self-attention: y = softmax(q k^T / sqrt(D) + mask) v for every head of D channels.
/// qkv: [(heads + 2 kv_heads) D, context, batch], channels of q, of k, of v, head by head -> [heads D, context, batch].
/// A query that sees no key has the output 0.
/// Attention Is All You Need, Vaswani et al., 2017; grouped heads: GQA, Ainslie et al., 2023.
struct Attention : Layer {
    const AttentionOptions options;
    const int heads, kv_heads;
    std::optional<RMSNorm> q_norm, k_norm;  ///< by head_norm: layers of their own, applied to each head

    Attention(std::string path, AttentionOptions o)
        : Layer(std::move(path)), options(o), heads(o.heads), kv_heads(o.kv_heads ? o.kv_heads : o.heads) {
        if (heads < 1) fail("[{}] has {} heads, expected at least 1", this->path, heads);
        if (kv_heads < 1 || heads % kv_heads)
            fail("[{}] {} heads cannot share {} heads of keys and values: expected a divisor of the first number",
                 this->path, heads, kv_heads);
        if (o.window < 0) fail("[{}] has a window of {}, expected 0 (all) or more", this->path, o.window);
        if (o.rotary && !(o.rotary->base > 0 && o.rotary->factor > 0 && o.rotary->high > o.rotary->low))
            fail("[{}] has rotary positions of base {}, factor {}, high {} and low {}, expected base > 0, factor > 0 "
                 "and "
                 "high > low",
                 this->path, o.rotary->base, o.rotary->factor, o.rotary->high, o.rotary->low);
        if (o.head_norm)
            for (auto [norm, name] : {std::pair{&q_norm, ".q_norm"}, {&k_norm, ".k_norm"}})
                norm->emplace(this->path + name, o.head_norm->size, RMSNormOptions{.eps = o.head_norm->eps});
    }
    int rank() const override { return 3; }
    int input_rank(int k) const override { return k == 0 ? 3 : 2; }
    bool differentiates(int k) const override { return k == 0; }
    Shape shape(const std::vector<Shape> &x) const override {
        const size_t expected = 1 + options.documents + options.mask;
        if (x.size() != expected)
            fail("[{}] has {} inputs, expected {}: qkv{}{}", path, x.size(), expected,
                 options.documents ? ", documents" : "", options.mask ? ", mask" : "");
        if (x[0].rank() < 2) fail("[{}] input {} is not [channels, context, batch]", path, x[0].str());
        if (x[0][0] % (heads + 2 * kv_heads))
            fail(
                "[{}] {}", path,
                kv_heads == heads
                    ? x[0][0] % 3 == 0
                          ? fmt::format("width {} is not divisible by {} heads", x[0][0] / 3, heads)
                          : fmt::format("input {} has {} channels, expected those of queries, keys and values side by "
                                        "side: three times a width that {} heads divide",
                                        x[0].str(), x[0][0], heads)
                    : fmt::format("{} channels are not divisible by {} heads of queries and 2 x {} of keys and values: "
                                  "expected those of AttentionOptions::channels(width)",
                                  x[0][0], heads, kv_heads));
        if (const int size = head_size(x[0][0]); options.rotary && size % 2)
            fail("[{}] rotary positions turn pairs of channels, but a head has {}: expected an even number", path,
                 size);
        for (size_t k = 1; k < x.size(); k++)
            if (x[k].rank() < 1 || x[k][0] != x[0][1] || x[k].size() * x[0][0] != x[0].size())
                fail("[{}] {} has shape {}, expected one number for each position of {}", path,
                     k == 1 && options.documents ? "documents" : "mask", x[k].str(), x[0].str());
        return x[0].with(0, heads * head_size(x[0][0]));
    }
    Shape shape(const Shape &qkv) const override { return shape(std::vector<Shape>{qkv}); }
    CastRow cast_row() const override { return CastRow::attention; }
    /// Those of the two products, without the scores that are masked.
    double flops(const Shape &x) const override {
        const double rows = double(x.size()) / x[0], n = x[1];
        const double causal = options.window ? std::min<double>(n, 2 * options.window) : n;
        const double seen = options.causal ? causal : options.window ? std::min(2 * n, 4.0 * options.window) : 2 * n;
        return 2.0 * rows * heads * head_size(x[0]) * seen;
    }
    double gradient_flops(const Shape &x, bool of_input) const override { return of_input ? 2 * flops(x) : 0; }

    Func forward(const std::vector<Array> &x) override { return algorithm(x).forward(); }
    void backward(const Call &call, Array dy) override { d(call.input()) = algorithm(call.inputs).backward(dy); }
    Tensor operator()(const Tensor &qkv) { return qkv.graph().call(*this, {normed(qkv)}); }
    Tensor operator()(const Tensor &qkv, const Tensor &seen) { return qkv.graph().call(*this, {normed(qkv), seen}); }
    Tensor operator()(const Tensor &qkv, const Tensor &documents, const Tensor &mask) {
        return qkv.graph().call(*this, {normed(qkv), documents, mask});
    }

private:
    /// qkv, with the heads of q and k normalised if there is a head_norm.
    Tensor normed(const Tensor &qkv) {
        if (!options.head_norm) return qkv;
        const int size = options.head_norm->size, first = heads * size, values = first + kv_heads * size;
        if (head_size(qkv.shape()[0]) != size)
            fail("[{}] head norms are of {} channels, but a head of {} has {}", path, size, qkv.shape().str(),
                 head_size(qkv.shape()[0]));
        auto part = [&](int begin, int end, RMSNorm &norm) {
            const Tensor x = slice(qkv, 0, begin, end);
            const Shape shape = x.shape();
            return reshape(norm(reshape(x, {size, int(shape.size() / size)})), shape);
        };
        return concat({part(0, first, *q_norm), part(first, values, *k_norm), slice(qkv, 0, values, qkv.shape()[0])},
                      0);
    }
    int head_size(int channels) const { return channels / (heads + 2 * kv_heads); }
    AttentionAlgorithm algorithm(const std::vector<Array> &x) const {
        AttentionShape s{heads, kv_heads, head_size(x[0].extent(0)), x[0].extent(1), options.causal, options.window};
        if (options.documents) s.documents = x[1];
        if (options.mask) s.mask = x.back();
        s.rotary = options.rotary;
        return {x[0], x[0].type(), s, half_factors()};
    }
};

/// Attention in which every position sees itself and those before it.
struct CausalAttention : Attention {
    CausalAttention(std::string path, int heads) : Attention(std::move(path), {.heads = heads}) {}
};

}  // namespace cryolite
