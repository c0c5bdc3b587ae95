#pragma once

#include "dialects/product.h"

namespace cryolite::of_onednn {

/// Why oneDNN cannot compute a product; empty: it can. It takes all forms in fp32, with weights row-major (outputs
/// innermost) or in panels, of which the last may be narrower, and every epilogue: a step that a primitive does not
/// fuse runs afterwards on rows that are still in the cache. Convolutions have row-major weights.
inline std::string why_not(const Product &p) {
    // oneDNN's bf16 products need neighbours of the reduction interleaved in pairs. Cryolite's bf16 weights are stored
    // otherwise, in panels that an update streams.
    if (p.type != "float32") return "onednn computes this product in float32 only, and its factors are " + p.type;
    if (p.result != "float32") return "onednn computes this product in float32 only, and its results are " + p.result;
    if (p.window && p.panel) return "onednn has no convolution whose weight is stored in panels";
    if (p.inputs_innermost) return "onednn has no weights that are stored with the product's inputs innermost";
    return p.bias_gradient < 0 ? "" : "onednn does not compute the gradient of a bias together with a product";
}

}  // namespace cryolite::of_onednn
