#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for products in pairs of bf16 of which one factor has rows across lanes. The other factor is then a
/// vector that repeats two neighbouring elements of a stored panel; the pass makes it one load of 32 bits, broadcast.
/// Halide does not see that the two always lie side by side, in a panel of even width: it computes an index for each
/// lane, and LLVM emits a gather. The pass changes no value.
void broadcast_pairs(Halide::Pipeline &p);

}  // namespace cryolite::cpu
