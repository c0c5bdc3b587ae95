#pragma once

#include "dsl/layer.h"
#include "dsl/layers/attention_algorithm.h"

namespace cryolite {

/// Causal self-attention: y = softmax(q k^T / sqrt(D) + mask) v for every head, D = width / heads.
/// qkv: [3 width, context, batch], channels q, k, v, each by head -> [width, context, batch].
/// Attention Is All You Need, Vaswani et al., 2017.
struct CausalAttention : Layer {
    const int heads;

    CausalAttention(std::string path, int heads) : Layer(std::move(path)), heads(heads) {
        if (heads < 1) fail("[{}] has {} heads, expected at least 1", this->path, heads);
    }
    int rank() const override { return 3; }
    Shape shape(const Shape &x) const override {
        if (x.rank() < 2) fail("[{}] input {} is not [3 width, context, batch]", path, x.str());
        if (x[0] % (3 * heads))
            fail("[{}] width {} is not divisible by {} heads", path, x[0] / 3, heads);
        return x.with(0, x[0] / 3);
    }
    Casts casts() const override { return {.inputs = true, .output = true}; }  // softmax and both products in fp32
    /// Two products, of which the causal half is counted.
    double flops(const Shape &x) const override { return 2.0 * x.size() / 3 * x[1]; }
    double gradient_flops(const Shape &x, bool of_input) const override {
        return of_input ? 2 * flops(x) : 0;
    }

    Func forward(Array qkv) override { return algorithm(qkv).forward(); }
    void backward(const Call &call, Array dy) override {
        d(call.input()) = algorithm(call.input()).backward(dy);
    }

private:
    CausalAttentionAlgorithm algorithm(const Array &qkv) const {
        return {qkv, qkv.type(), qkv.extent(0) / 3, heads, qkv.extent(1)};
    }
};

}  // namespace cryolite
