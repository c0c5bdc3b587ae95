#pragma once
// What a core computes at best, measured now: some processors do bf16 dot products at twice the rate of float32's
// multiply-adds, others at half of it, and some multiply whole tiles.

#include <cstdint>

namespace cryolite {

/// Runs `rounds` rounds of a loop over registers and returns the number of operations. Results are added to `sink`.
using FlopLoop = double (*)(int64_t rounds, float *sink);

/// Fused multiply-adds of float32 (two operations each) with the widest vectors of this processor.
FlopLoop multiply_adds();
/// Dot products of pairs of bf16, summed in float32 (four operations a lane); null: this processor has none.
FlopLoop dot_products();
/// Products of tiles of bf16, summed in float32; null: see `has_matrix_tiles`.
FlopLoop matrix_tiles();

/// Whether this processor multiplies tiles of bf16 (Intel's AMX) and the system lets this process do so, which it is
/// asked for once.
bool has_matrix_tiles();

/// In 1e9 operations a second, on this thread: the best of many short pieces in `seconds`, as other programs run too.
double best_rate(FlopLoop loop, double seconds);

/// Whether this processor has bf16 dot products that do more operations than its multiply-adds.
bool dot_products_are_faster();

}  // namespace cryolite
