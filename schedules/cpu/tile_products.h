#pragma once

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// Y or dX whose sums are not cut into chunks, `out` in tiles `t` that the processor multiplies.
void rows_by_tiles(Group &g, const Tile &t, const Machine &m);

/// dW, over the definition `s` of `into` that stores dW or updates in place from it.
void weight_by_tiles(Group &g, Func into, Halide::Stage s, TailStrategy edge, const Tile &t, const Machine &m);

}  // namespace cryolite::cpu
