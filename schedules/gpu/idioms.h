#pragma once
// Pieces that several loop schedules of GPUs share.

#include <set>

#include "schedules/group.h"

namespace cryolite::gpu {

using namespace Halide;

inline constexpr int block_threads = 128;
inline constexpr int most_threads = 1024;  ///< of a block, on all GPUs

/// The loops of a stage: a thread for each element of its pure dimensions, with its reductions inside. `row`: the
/// extent of the innermost dimension, if a thread may take four neighbours at once, by one load and one store; else 0.
struct Threads {
    Var block{"block"}, thread{"thread"};
};
Threads element_each(Stage s, int row = 0);

/// The most that divides `extent`: a power of two, up to `most`, which is one.
int dividing(int extent, int most);
/// The largest divisor of `n` that is at most `most`.
int divisor(int n, int most);

/// The loops of `s` over its reductions, from the innermost one out.
std::vector<VarOrRVar> reductions_of(const Stage &s);

/// Whether rows of this extent can be loaded by fours: no four reaches past a row, and each is aligned to 16 bytes.
bool takes_fours(int row);
void by_fours(Stage s, const Var &v, const Var &four);

/// The definition of `out` that does the work. In place, the pure definition, which is undefined, gets blocks, too:
/// Halide requires its loops before it drops them.
Stage work_of(Group &g);

/// Names of the Funcs that have loops of their own: the others are inlined.
using Placed = std::set<std::string>;

/// Computes `f` at root, by element_each. It is one launch if updates only write the element that they are called for,
/// else one for each definition.
void at_root(Func f, Placed &placed);

/// Where a sum of many terms has few elements, so that a thread for each would leave the GPU idle: has more threads add
/// parts of the terms, at root, and leaves the sum of the parts to `f`, which the caller places.
void add_in_parts(Func f, int64_t elements, Placed &placed);

/// Sums along a row f(r) += g(k, r), by the threads of the block at `level`.
void along_row(Func f, const LoopLevel &level, Placed &placed);

/// A sum f() += g(k) by the block at `level`: 256 threads add terms, 16 threads add their sums, and one adds these.
void along_block(Func f, const LoopLevel &level, Placed &placed);

/// The loops of f(i, r): a block, or a warp, takes a row, and computes the sums along it. Returns the loop in which
/// numbers of the whole kernel are computed: that over blocks, or over lanes. `row_extent`: as `row` of element_each.
Var row_each(Func f, Stage s, const std::vector<Func> &funcs, Placed &placed, const Machine &m, int row_extent = 0);

/// The sums along rows that `f` reads, if warps can compute all of them; else none.
std::vector<Func> sums_for_warps(const Func &f, const std::vector<Func> &funcs, const Machine &m);
/// The loops of f(v0, v1...), with those sums: a warp takes a row. Returns the loop over lanes.
Var row_each_by_warps(Func f, Halide::Stage s, std::vector<Var> v, const std::vector<Func> &sums, Placed &placed,
                      int row_extent);

/// Schedules the rest of a kernel, when `out` has its loops. Sums go to root. Numbers of the whole kernel that only
/// `out` reads are computed in each of its blocks. What is stored beside `out` gets loops, too.
void finish(Group &g, const Var &block, Placed &placed);

}  // namespace cryolite::gpu
