#pragma once
// Recognises the sums of products of which contractions are made. Pure Funcs in the algorithm are inlined before.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/layer.h"

namespace cryolite::compiler {

/// An array, read at variables alone.
struct ReadAt {
    std::string array;            ///< the name of its Func
    std::vector<std::string> at;  ///< a variable for each dimension
};
/// result(place) = first (where there is one) + sum over `loops` of the product of `factors`.
struct SumOfProducts {
    std::vector<std::string> place;
    std::optional<ReadAt> first;
    std::vector<ReadAt> factors;       ///< one or two
    std::map<std::string, int> loops;  ///< extents, from 0 on
};

/// Takes `f`, of this shape, for such a sum over arrays of these names; none: it is anything else.
std::optional<SumOfProducts> sum_of_products(const Func &f, const Shape &shape, const std::set<std::string> &arrays);

}  // namespace cryolite::compiler
