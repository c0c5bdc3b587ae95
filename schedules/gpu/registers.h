#pragma once

#include <Halide.h>

namespace cryolite::gpu {

/// Adds a lowering pass. Halide gives each thread a whole copy of a block's array in MemoryType::Register. Where a
/// thread uses only elements of it at constant distances from one another, the pass keeps only these, so that they
/// really are in registers.
void own_elements(Halide::Pipeline &p);

}  // namespace cryolite::gpu
