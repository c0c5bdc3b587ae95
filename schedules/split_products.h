#pragma once
// Products of float32 factors by tiles of bf16: each factor is the sum of three bf16 (bundle/matrix_tiles.h). The rules
// that the algorithm and its loops share.

#include <cstdint>

namespace cryolite {

constexpr int bytes_of_split = 6;  ///< of an element in three bf16

/// Whether the parts of a factor of columns x terms are so few that they are copied once, and stay in a last cache.
inline bool splits_once(int64_t columns, int64_t terms) { return columns * terms * bytes_of_split <= (24 << 20); }

/// Whether the product y(x, r) = sum over k of a(x, k) b(k, r) is faster by tiles than by multiply-adds of vectors.
/// Each extent is how often an element of one of its arrays is used: of its factors, which are split, and of its sums,
/// which are in memory. Each task splits the columns of a long factor again, for which tasks have to be large.
inline bool pays_to_split(int64_t columns, int64_t rows, int64_t terms) {
    constexpr double most_copies = 1.0 / 200;
    constexpr int64_t sums_of_tasks = 2 << 20;
    const bool many = 1.0 / double(columns) + 1.0 / double(rows) + 1.0 / double(terms) <= most_copies;
    return many && (terms < columns || splits_once(columns, terms) || rows * columns >= sums_of_tasks);
}

}  // namespace cryolite
