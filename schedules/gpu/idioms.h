#pragma once
// Pieces that several loop schedules of GPUs share.

#include "schedules/group.h"

namespace cryolite::gpu {

using namespace Halide;

inline constexpr int block_threads = 128;

/// The loops of a stage, one element of its pure dimensions a thread; reductions run inside of it.
struct Threads {
    Var block{"block"}, thread{"thread"};
};
Threads element_each(Stage s, int threads = block_threads);

/// Every definition of `f` so, before all that read it.
void at_root(Func f);

/// Sums along a row f(r) += g(k, r), by the threads of the block at `level`.
void along_row(Func f, const LoopLevel &level);

/// Whether `f` is a number of each row that takes a sum (or a maximum) along the row.
bool is_row_number(const Func &f);

/// Loops of rows f(i, r): a row is a block's, with the numbers that it takes as a whole. Returns the block's loop.
Var row_each(Func f, Stage s, const std::vector<Func> &funcs);

/// Numbers of the whole kernel that only `out` reads: computed by each block.
void numbers_in_block(Group &g, const Var &block);

/// What `out` stores beside itself, in other dimensions.
void store_others(Group &g);

}  // namespace cryolite::gpu
