#pragma once

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// The tile of Y or dX.
Tile tile_of_rows(const Group &g, const Machine &m);

/// Y or dX, `out` in tiles `t` that the processor multiplies. In bf16 sums are not cut into chunks here.
void rows_by_tiles(Group &g, const Tile &t, const Machine &m);

/// dW, over the definition `s` of `into` that stores dW or updates in place from it.
void weight_by_tiles(Group &g, Func into, Halide::Stage s, TailStrategy edge, const Tile &t, const Machine &m);

}  // namespace cryolite::cpu
