#pragma once
// What the loop schedules of self-attention, forward and backward, share.
//
// Scores, their adjoints and weights are stored between launches. Their arrays have room for all pairs of a block of
// queries and one of keys; only those that meet are computed and read. l is a query or a key of a block, b its
// block, e a channel.

#include "dsl/layers/attention_algorithm.h"
#include "schedules/gpu/idioms.h"

namespace cryolite::gpu {

inline constexpr int rows_of_block = AttentionAlgorithm::block;  ///< queries, or keys

/// Whether these loops fit: shared memory holds the rows of a tile of scores, and terms do not come in pairs.
bool tiles_fit(const Group &g, const Machine &m);

/// Channels of a head.
int head_size(const Group &g);

/// f(l, j, b, h, s), stored where queries and keys meet, by an update over these four. All Funcs that read `f` read
/// `at`, with its arguments, instead. `bounds`: whether the condition that blocks meet may bound loops; else it is a
/// number to Halide, which leaves the bounds of the Funcs that are computed in tiles constant.
struct Met {
    Func stored, at;  ///< arguments of `stored`: those four, h, s
    RVar query, key, key_block, query_block;
};
Met where_met(Group &g, const Func &f, bool bounds);

/// A launch for the products f(l, j, b, h, s) of rows x(l, e, b, h, s) and y(e, j, h, s). Shared memory holds the rows
/// of a block of threads, as float32. A thread computes a tile in registers.
void score_tiles(Group &g, Func f, Func x, Func y, Placed &placed);

/// The blocks of keys that a block of threads takes at once, where it takes a block of queries.
int lanes_of_keys(const Group &g);
/// The loops of such a stage: four queries, and a key, for a thread, and all the blocks of keys by turns.
void blocks_of_queries(Stage s, const VarOrRVar &query, const RVar &key, const RVar &key_block, const RVar &query_block,
                       const Var &h, const Var &sequence, int lanes);
/// The loops of a stage of which a thread takes four queries: those `inside` of threads, threads, and those outside.
void by_fours_of_queries(Stage s, const VarOrRVar &query, std::vector<VarOrRVar> inside, std::vector<VarOrRVar> threads,
                         const std::vector<VarOrRVar> &outside = {});
/// A sum or maximum f(l, b, h, s) along keys, by the block at `level`.
void along_keys(Func f, const LoopLevel &level, int lanes, Placed &placed);
/// A launch for f(l, b, h, s), which reads `sums` along keys.
void numbers_of_queries(Func f, const std::vector<Func> &sums, int lanes, Placed &placed);

/// The tiles of sums f(e, l, b, h, s) of rows of a head.
struct RowTile {
    int channels, rows;  ///< of a thread
    int blocks;          ///< of rows, of a block of threads
    int terms;           ///< of each sum, whose factors a thread loads together
};
RowTile row_tile(Group &g);

/// A launch for sums f(e, l, b, h, s) of rows y(e, ..), each multiplied by one of `shares`, which are stored. `row`:
/// the argument of shares, 0 or 1, that is l; the other is the row of y.
void sum_rows(Func f, Func shares, Func y, int row, const RowTile &tile, Placed &placed);

/// The schedule of the gradient, for shapes that fit.
void attention_backward(Group &g);

/// Rotary positions: angles, and the rows that they turn, in launches of their own.
void turn_at_root(Group &g, Placed &placed);

}  // namespace cryolite::gpu
