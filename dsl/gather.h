#pragma once
// Sums at places: what reads of a Func say about its adjoint, turned into loops over the adjoint's own elements.

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cryolite {

/// least, ..., most
struct Range {
    int64_t least, most;
    int64_t extent() const { return most - least + 1; }
    bool within(const Range &r) const { return least >= r.least && most <= r.most; }
};

/// A variable of a definition, and what it runs over.
struct Loop {
    std::string variable;
    Range range;
};

/// f(at) += value for all values of the loops for which the condition holds.
struct Addition {
    std::vector<Halide::Expr> at;
    Halide::Expr value;
    std::vector<Loop> loops;
    Halide::Expr condition;
};

/// The Func that is the sum of all of these, zero elsewhere; it is asked for inside `box` only.
///
/// Each dimension's index is solved for loop variables where it is linear in them, a quotient or a remainder of that:
/// f(h * 8 + d) += e(h, d) becomes f(i) = e(i / 8, i % 8). Loops that are left become a reduction, and a place that is
/// not solved (x(ids(r)), x(r, r)) stays the place of its update.
Halide::Func sum_at_places(const std::string &name, Halide::Type type, const std::vector<Range> &box,
                           const std::vector<Addition> &additions);

/// The constants between which an index lies; without `least <= most` there are none.
Range range_of(const Halide::Expr &index, const std::vector<Loop> &loops);

/// The place at which an index is `variable + offset`, alone; of an index that is anything else the name is empty.
struct Shifted {
    std::string variable;
    int64_t offset = 0;
};
Shifted shifted(const Halide::Expr &index, const std::vector<Loop> &loops);

}  // namespace cryolite
