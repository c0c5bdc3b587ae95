#pragma once

#include "dialects/product.h"

namespace cryolite::of_onednn {

/// All forms in fp32, on weights with outputs innermost and on panels, ragged ones too, with every epilogue: what a
/// primitive does not fuse follows on rows that are still in the cache. Convolutions have row-major weights.
inline std::string why_not(const Product &p) {
    // Its bf16 products take the pairs of a reduction side by side;
    // weights are panels of halves that an update streams.
    if (p.type != "float32") return "onednn has it in float32 only, and its factors are " + p.type;
    if (p.result != "float32") return "onednn has it in float32 only, and its results are " + p.result;
    if (p.window && p.panel) return "onednn has no convolution whose weight is stored in panels";
    if (p.inputs_innermost) return "onednn has no weights that are stored with the product's inputs innermost";
    return p.bias_gradient < 0 ? "" : "onednn makes no gradient of a bias beside it";
}

}  // namespace cryolite::of_onednn
