#pragma once

#include <Halide.h>

namespace cryolite::cpu {

/// A lowering pass for updates in the loops of a product: while the sums of a tile are made, what the next tile's
/// update reads and writes is fetched, lines of 64 bytes of each array in every iteration. Halide's prefetch() knows
/// only what is read of another Func. Values stay as they are; a prefetch past the end of an array does nothing.
void prefetch_next_tile(Halide::Pipeline &p);

/// For a product whose loop over chunks of terms, `ko`, holds tiles whose innermost loop goes along a stored weight:
/// before a tile's sums, the lines are fetched that the same tile reads of the next chunk. Neither hardware nor
/// Halide's prefetch() does it: the chunk begins elsewhere,
/// and behind a view of the weight prefetch() finds nothing to fetch.
void prefetch_next_chunk(Halide::Pipeline &p);

/// For the innermost loop of a product that reads a stored weight in vectors, in the order in which it lies there:
/// lines that come some KB later are fetched into the second cache. Hardware does it page by page, and waits at each.
void prefetch_ahead(Halide::Pipeline &p);

}  // namespace cryolite::cpu
