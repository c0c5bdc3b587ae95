#pragma once
// Sums of products f(x, y) += a(x, k) b(k, y), in tiles. A block of threads copies a part of both factors to shared
// memory, `depth` terms of each sum at a time. A thread adds a tile of sums in registers.

#include <optional>
#include <set>
#include <string>

#include "schedules/group.h"

namespace cryolite::gpu {

using namespace Halide;

/// Sums of a block and of a thread, in fours, and terms that shared memory holds.
struct Tile {
    int columns, rows, thread_columns, thread_rows, depth;
    int threads_across() const { return columns / thread_columns; }
    int threads_down() const { return rows / thread_rows; }
    int threads() const { return threads_across() * threads_down(); }
};

/// How a factor lies in memory: whether neighbours are terms, not columns or rows, and how many are in line.
struct Memory {
    bool along_k = false;
    int neighbours = 0;
};

/// A sum of products over one variable, as tiles need it.
struct Products {
    Func sum;
    Func a, b;  ///< factors a(x, k) and b(y, k), which the sum now calls
    Memory in_a = {}, in_b = {};
    bool swapped = false;  ///< the stored array has the columns of the sum as its rows
    int terms = 0;
};

/// The anchor of a group as products, if it has that form. Its update then calls the factors as Funcs of their own.
/// `stored`: Funcs that have loops of their own.
std::optional<Products> products_of(Group &g, const std::set<std::string> &stored);

/// The loops of `s`, a definition of `into`, which stores the sums `p.sum(x, y)`. Edge tiles that do not fit are moved
/// inwards, unless `whole` says that all of them fit. A third dimension of `into` numbers parts of the sums.
/// `in_place`: `s` updates each element once; else it may compute four at a time, and some of them again.
void in_tiles(const Products &p, Func sum, Func into, Halide::Stage s, const Tile &t, bool whole, bool in_place);

}  // namespace cryolite::gpu
