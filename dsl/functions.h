#pragma once
// Layers without parameters, written as functions. The trace owns each layer. Its path is beside that of its first
// input: `swiglu` of "h.0.mlp.gate" and "h.0.mlp.up" is "h.0.mlp.swiglu".

#include "dsl/layers/attention.h"
#include "dsl/tensor.h"

namespace cryolite {

/// The path of a layer that is called on x: the name of x with `word` for its last part.
inline std::string path_beside(const Tensor &x, const std::string &word) {
    const size_t dot = x.name().rfind('.');
    return dot == std::string::npos ? word : x.name().substr(0, dot + 1) + word;
}

/// y = SiLU(gate) up, elementwise; gate, up and y have one shape.
inline Tensor swiglu(const Tensor &gate, const Tensor &up) {
    return traced<SwiGLU>({gate, up}, path_beside(gate, "swiglu"));
}
/// y = GELU(gate) up, elementwise; gate, up and y have one shape.
inline Tensor geglu(const Tensor &gate, const Tensor &up) {
    return traced<GeGLU>({gate, up}, path_beside(gate, "geglu"));
}

/// Self-attention (layers/attention.h) of queries, keys and values in one tensor, as one product computes them.
/// qkv: [AttentionOptions::channels(width), context, batch] -> [width, context, batch].
/// `more`: documents, then the mask, where the options have them.   `path`: of the layer; "": beside that of qkv.
inline Tensor attention(const Tensor &qkv, const AttentionOptions &o, const std::vector<Tensor> &more = {},
                        const std::string &path = "") {
    std::vector<Tensor> x = {qkv};
    x.insert(x.end(), more.begin(), more.end());
    return traced<Attention>(x, path.empty() ? path_beside(qkv, "attention") : path, o);
}
/// The same of three tensors, which are copied into one. q: [width, context, batch]; k and v: [kv_heads D, context,
/// batch] with D = width / heads. Errors: widths that do not fit the heads.
inline Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const AttentionOptions &o,
                        const std::vector<Tensor> &more = {}) {
    const std::string path = path_beside(q, "attention");
    const int width = q.shape()[0], of_k = k.shape()[0], of_v = v.shape()[0];
    if (o.heads < 1 || width % o.heads)
        fail("[{}] queries have {} channels, which {} heads do not divide", path, width, o.heads);
    if (const int expected = (o.channels(width) - width) / 2; of_k != expected || of_v != expected)
        fail("[{}] keys and values have {} and {} channels, expected {} each ({} heads), beside queries of {} channels "
             "({} heads)",
             path, of_k, of_v, expected, o.kv_heads ? o.kv_heads : o.heads, width, o.heads);
    return attention(concat({q, k, v}, 0), o, more, path);
}

}  // namespace cryolite
