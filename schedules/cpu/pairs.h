#pragma once
// Products of 16-bit factors, C(x, y) += a_pairs(p, x, k) * b_pairs(p, y, k), p = 0, 1. In bf16 one instruction adds
// two terms. Factors that were rounded to fp16 are float32 here, and one instruction adds one term. Factors of float32
// may be sums of three bf16, their parts.

#include <optional>
#include <string>
#include <vector>

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

constexpr int pairs_of_line = 16;  ///< pairs of bf16 in a line of a cache

/// Whether the kernel's product is of this form.
bool in_pairs(const Group &g);

/// Whether the product's factors are pairs of bf16.
bool pairs_are_bf16(const Group &g);

/// The Funcs of a factor, a_pairs or b_pairs: one, or three where a factor of float32 is the sum of three bf16.
std::vector<Func> parts(const Group &g, const std::string &factor);

/// Whether the factors are sums of three bf16.
bool is_split(const Group &g);

/// Whether the array of the factor a_pairs is stored in pairs.
bool stored_in_pairs(const Group &g);

/// Whether the factor b_pairs is a matrix that is stored with the pairs of a row side by side.
bool stored_rows_in_pairs(const Group &g);

/// The number of terms of each sum of the product.
int terms(const Group &g);

/// Vectorises the loop over lanes and, inside of it, the loop over a pair's terms: a lane of 32 bits then holds a pair.
/// Without an instruction for this, it unrolls the terms.
void across_pairs(Stage s, const Halide::VarOrRVar &lane, const RVar &p, const Machine &m);

/// The loops of a tile, as `accumulate` of product.cpp. In chunks: `size` terms at a time, loop `ko`, over a C that is
/// larger than a tile. `panel`: the loop over its tiles of columns.
void accumulate_pairs(Func f, const Tile &t, TailStrategy edge, const Machine &m);
void accumulate_pairs_in_chunks(Func f, const Tile &t, int size, const RVar &ko, const Machine &m,
                                const std::optional<Var> &panel = {});

/// The loops of s(u, v, q): each element (u, v) of a tile has a vector of partial sums, one for each lane q.
void accumulate_pairs_by_lane(Func s, const Machine &m);

/// Copies the factor that is broadcast, b_pairs(p, y, k), unless it is stored in pairs already: at `level`, where a
/// prologue computes its rows, else once for the whole kernel.
void pack_rows(Group &g, const Machine &m, const std::optional<LoopLevel> &level = {});

/// Copies b_pairs once for the whole kernel with its rows innermost, so that they can be across lanes.
void turn_pairs(Group &g, const Machine &m);

/// Copies b_pairs once for the whole kernel with the terms of its sums side by side, from rows of them.
void turn_terms(Group &g, const Machine &m);

/// Copies the factor across lanes, a_pairs, at `level`, in vectors of the tile, as wider ones would reach past the
/// factor. Copies b_pairs as `pack_rows` does, at `rows`.
void pack_pairs(Group &g, const LoopLevel &level, const Tile &t, const Machine &m,
                const std::optional<LoopLevel> &rows = {});

/// Copies factors of float32 for a chunk of terms: b_pairs at `rows`, in vectors of `inputs` lanes, and a_pairs at
/// `columns`.
void pack_chunks(Group &g, const LoopLevel &rows, const LoopLevel &columns, int inputs, const Tile &t);

}  // namespace cryolite::cpu
