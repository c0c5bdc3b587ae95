#pragma once
// Products of bf16 factors: C(x, y) += a_pairs(p, x, k) * b_pairs(p, y, k), two terms an instruction; and of fp16 ones,
// in float32 since they were rounded, a term an instruction.

#include <optional>

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

/// Whether the kernel's product is of this form.
bool in_pairs(const Group &g);

/// Whether they are multiplied as pairs of bf16.
bool pairs_are_bf16(const Group &g);

/// Whether the factor across lanes lies in pairs, as stored.
bool stored_in_pairs(const Group &g);

/// Terms of the product's sums.
int terms(const Group &g);

/// The loop over lanes, and in it that over a pair's terms: one lane of 32 bits, where there is an instruction for it.
void across_pairs(Stage s, const Halide::VarOrRVar &lane, const RVar &p, const Machine &m);

/// The loops of a tile, as `accumulate` of product.cpp; with `ko`, `size` terms at a time over a C larger than a tile.
void accumulate_pairs(Func f, const Tile &t, TailStrategy edge, const Machine &m);
void accumulate_pairs_in_chunks(Func f, const Tile &t, int size, const RVar &ko, const Machine &m);

/// The loops of s(u, v, q), where a sum of `q` lanes of pairs stands for each element (u, v) of a tile.
void accumulate_pairs_by_lane(Func s, const Machine &m);

/// Packs the factor that is broadcast elsewhere, b(p, y, k), where it is not stored in pairs already: at `level`, where
/// a prologue makes its rows there, else once for all.
void pack_rows(Group &g, const Machine &m, const std::optional<LoopLevel> &level = {});

/// Packs that factor once for all with its rows innermost, for lanes to hold them.
void turn_pairs(Group &g, const Machine &m);

/// Packs the factor across lanes at `level`, in vectors of the tile, as wider ones would reach out of the factor, and
/// the other one as `pack_rows` does.
void pack_pairs(Group &g, const LoopLevel &level, const Tile &t, const Machine &m,
                const std::optional<LoopLevel> &rows = {});

}  // namespace cryolite::cpu
