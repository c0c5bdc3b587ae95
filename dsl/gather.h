#pragma once
// Additions at computed indices, f(at) += value, turned into loops over the elements of f. The adjoint of a Func is a
// sum of such additions, one for each read of the Func.

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cryolite {

/// The whole numbers from `least` to `most`.
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

/// The Func f that is the sum of all additions, and zero where nothing is added. It is only read inside `box`.
///
/// The index of a dimension is solved for loop variables where it is linear in them, or a quotient or a remainder of
/// such an index: f(h * 8 + d) += e(h, d) becomes f(i) = e(i / 8, i % 8). The remaining loops become a reduction.
/// Indices that are not solved (f(ids(r)), f(r, r)) stay as they are, in an update definition.
Halide::Func sum_at_places(const std::string &name, Halide::Type type, const std::vector<Range> &box,
                           const std::vector<Addition> &additions);

/// The constant bounds of an index; least > most: none are known.
Range range_of(const Halide::Expr &index, const std::vector<Loop> &loops);

/// An index of the form `variable + offset`; of any other index the name is empty.
struct Shifted {
    std::string variable;
    int64_t offset = 0;
};
Shifted shifted(const Halide::Expr &index, const std::vector<Loop> &loops);

}  // namespace cryolite
