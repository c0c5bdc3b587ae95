#pragma once

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// The tile of Y or dX.
Tile tile_of_rows(const Group &g, const Machine &m);

/// Y or dX whose sums are not cut into chunks, `out` in tiles `t` that the processor multiplies.
void rows_by_tiles(Group &g, const Tile &t, const Machine &m);

/// Whether factors are in parts, and columns so few that a task has the most of them, a chunk of terms at a time: each
/// row is then copied once. Many columns are copied less often where a task has few of them, and all terms.
bool sums_in_chunks(const Group &g);

/// Y or dX of such sums: a task adds up many columns, a chunk of terms at a time.
void rows_by_tiles_in_chunks(Group &g, const Tile &t, const Machine &m);

/// dW, over the definition `s` of `into` that stores dW or updates in place from it.
void weight_by_tiles(Group &g, Func into, Halide::Stage s, TailStrategy edge, const Tile &t, const Machine &m);

}  // namespace cryolite::cpu
