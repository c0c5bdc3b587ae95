#pragma once
// Pieces that several loop schedules of GPUs share.

#include <set>

#include "schedules/group.h"

namespace cryolite::gpu {

using namespace Halide;

inline constexpr int block_threads = 128;

/// The loops of a stage, one element of its pure dimensions a thread; reductions run inside of it. `row`: the extent of
/// the innermost dimension, where a thread may have four elements that lie side by side, loaded and stored at once.
struct Threads {
    Var block{"block"}, thread{"thread"};
};
Threads element_each(Stage s, int row = 0);

/// Whether rows of this extent can be loaded by fours: none is beyond them, and each begins at a multiple of 16 bytes.
bool takes_fours(int row);
void by_fours(Stage s, const Var &v, const Var &four);

/// The definition of `out` that does the work. In place, that which leaves all undefined has blocks too: Halide asks
/// for its loops before it drops them.
Stage work_of(Group &g);

/// Names of the Funcs that have loops of their own: the others are inlined.
using Placed = std::set<std::string>;

/// Every definition of `f` so, before all that read it: one launch where each of its elements is made by itself.
void at_root(Func f, Placed &placed);

/// Sums along a row f(r) += g(k, r), by the threads of the block at `level`.
void along_row(Func f, const LoopLevel &level, Placed &placed);

/// A sum f() += g(k) by 256 threads of the block at `level`, whose sums 16 of them add, and then one.
void along_block(Func f, const LoopLevel &level, Placed &placed);

/// Loops of rows f(i, r): a row is a block's, or a warp's, with the numbers that it takes as a whole. Returns the loop
/// in which numbers of the whole kernel are made: the block's, or the lanes'. `row_extent`: as of element_each.
Var row_each(Func f, Stage s, const std::vector<Func> &funcs, Placed &placed, const Machine &m, int row_extent = 0);

/// The sums along rows that warps can make, where they can make all that `f` reads; else none.
std::vector<Func> sums_for_warps(const Func &f, const std::vector<Func> &funcs, const Machine &m);
/// Loops of rows f(v0, v1...) with those sums: a row is a warp's. Returns the lanes' loop.
Var row_each_by_warps(Func f, Halide::Stage s, std::vector<Var> v, const std::vector<Func> &sums, Placed &placed,
                      int row_extent);

/// What is left when `out` has its loops: sums go to root, numbers of the whole kernel that only `out` reads into each
/// of its blocks, and what is stored beside `out` gets loops too.
void finish(Group &g, const Var &block, Placed &placed);

}  // namespace cryolite::gpu
