#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for products in pairs whose other factor has the rows across lanes: a vector of which every two
/// lanes hold the same two neighbours of a stored panel becomes one load of 32 bits, broadcast. Halide computes the
/// place of each lane, for it does not see that an even panel parts no pair, and LLVM then gathers.
/// Values stay as they are.
void broadcast_pairs(Halide::Pipeline &p);

}  // namespace cryolite::cpu
