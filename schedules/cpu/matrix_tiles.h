#pragma once

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// The tile that one call of `cryolite_multiply_tiles` or `cryolite_multiply_split` computes (bundle/matrix_tiles.h).
Tile processor_tile(int columns, int panel, int rows, const Machine &m, bool dividing = false);

/// The loops of a product of bf16 pairs, f(x, y) += a_pairs(p, x, k) * b_pairs(p, y, k), or of six such products of the
/// parts of float32 factors, which the pass below replaces. `size` terms at a time (loop `ko`), where it is given.
void accumulate_processor_tiles(Group &g, Func f, int lanes, TailStrategy edge, int size = 0,
                                const RVar &ko = RVar("ko"));

/// A lowering pass: replaces these loops by calls of these functions. Terms of a sum are added in another order.
void multiply_tiles(Halide::Pipeline &p);

/// A lowering pass that runs after it: before each call it prefetches what the rows of the tile read and write
/// afterwards. Hardware does not, as a tile has a line or two of each row.
void prefetch_epilogue(Halide::Pipeline &p);

}  // namespace cryolite::cpu
