#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for updates in the loops of a product. While the sums of a tile are computed, it prefetches what the
/// next tile's update reads and writes: lines of 64 bytes of each array in every iteration. Halide's prefetch() only
/// covers reads of another Func. The pass changes no value, and a prefetch past the end of an array does nothing.
void prefetch_next_tile(Halide::Pipeline &p);

/// A lowering pass for a product with a loop over chunks of terms, `ko`, around its tiles, where the innermost loop
/// goes along a stored weight. Before a tile's sums, it prefetches the lines that the same tile reads of the next
/// chunk. Hardware does not, as the next chunk begins elsewhere; Halide's prefetch() does not, as it sees no array
/// behind a view of the weight.
void prefetch_next_chunk(Halide::Pipeline &p);

/// A lowering pass for the innermost loop of a product that reads a stored weight in vectors, in the order of memory.
/// It prefetches lines some KB ahead into the second cache. Hardware prefetches page by page, and waits at each.
void prefetch_ahead(Halide::Pipeline &p);

}  // namespace cryolite::cpu
