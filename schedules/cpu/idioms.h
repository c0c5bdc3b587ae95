#pragma once
// Pieces that several loop schedules share.

#include "schedules/group.h"

namespace cryolite::cpu {

using namespace Halide;

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Elements from row to row of a copy, where a line of a cache has `of_line` of them: rows begin an odd number of lines
/// apart, so that the rows of a tile use all sets of the cache.
inline int odd_lines(int elements, int of_line) { return (ceil_div(elements, of_line) | 1) * of_line; }

/// Lanes to vectorise an extent by where nothing beyond it may be touched: a power of two.
inline int lanes_within(int extent, const Machine &m) {
    int lanes = m.vector;
    while (lanes > extent) lanes /= 2;
    return lanes;
}

/// Columns and rows of the tile of accumulators that one loop over a reduction keeps in registers.
struct Tile {
    int lanes, columns, rows;
    int work() const { return columns * rows; }
};

/// The cache that the vectors of a panel come from, again for each tile.
enum class Cache { first, second };

/// The best tile for `columns` (stored in panels of width `panel`; 0: in no panels) and `rows`. `dividing`: its height
/// divides `rows`.
Tile register_tile(int columns, int panel, int rows, const Machine &m, bool dividing = false,
                   Cache vectors = Cache::first);

/// The tile that is as wide as a panel.
Tile whole_panel_tile(int panel, int rows, const Machine &m, bool dividing = false);

/// The tile `usual`, of which lines may set the tunables `columns` and `rows`.
Tile tuned_tile(Group &g, const Tile &usual, int columns, int panel, int rows, const Machine &m, bool dividing = false);

/// How many consecutive items, of `items`, one parallel task takes: at least `least`. There are `others` times as many
/// tasks as blocks of items, at most about `tasks`, and an item costs `work` multiply-adds.
int items_per_task(int items, int others, int64_t work, int least = 1, int tasks = 48);

/// Whether each update of f adds, or takes the largest, along one dimension, in any order.
bool adds_along_rows(const Func &f);

/// Computes f, one number for each row, at `level`, with its sums across lanes.
void along_row(Func f, const LoopLevel &level, const Machine &m);

/// Computes the prologue at `level`, for the rows of a task (at the root: for all rows), and not for every element that
/// is read.
void stage_prologue(Group &g, const LoopLevel &level, const Machine &m);

/// Vectorises dimension `x` of a register tile and unrolls what is left of it.
template <typename V> void across_lanes(Stage s, const V &x, int lanes, TailStrategy tail = TailStrategy::Auto) {
    V lane("lane");
    s.split(x, x, lane, lanes, tail).vectorize(lane).unroll(x);
}

/// Stores W(o, i) with `i` innermost.
Func transpose(Func W, int lanes);

/// The loops of a tile of sums, f(x, y, ..) += ..: reductions outside, the accumulators (all of x and y) in registers.
void sum_in_registers(Func f, int lanes, TailStrategy edge = TailStrategy::Auto);

}  // namespace cryolite::cpu
