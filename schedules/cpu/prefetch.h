#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for updates in the loops of a product: while the sums of a tile are made, what the next tile's update
/// reads and writes is fetched, lines of 64 bytes of each array in every iteration. Halide's prefetch() knows only what
/// is read of another Func. Values stay as they are; a prefetch past the end of an array does nothing.
void prefetch_next_tile(Halide::Pipeline &p);

}  // namespace cryolite::cpu
