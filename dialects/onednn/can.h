#pragma once

#include "dialects/product.h"

namespace cryolite::of_onednn {

/// All forms in fp32, on row-major weights and on panels, ragged ones too, with every epilogue: what a primitive does
/// not fuse follows on rows that are still in the cache.
inline std::string why_not(const Product &p) {
    // Its bf16 products take the pairs of a reduction side by side;
    // weights are panels of halves that an update streams.
    return p.type == "float32" ? "" : "onednn has it in float32 only, and its factors are " + p.type;
}

}  // namespace cryolite::of_onednn
