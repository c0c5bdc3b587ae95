#pragma once
// What lowering passes know of the lets around a place.

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace cryolite::cpu {

using Lets = std::vector<std::pair<std::string, Halide::Expr>>;  ///< outer ones first

/// An expression in terms of what is known before the lets.
inline Halide::Expr known(const Lets &lets, Halide::Expr e) {
    for (size_t i = lets.size(); i--;) e = Halide::Internal::substitute(lets[i].first, lets[i].second, e);
    return e;
}

}  // namespace cryolite::cpu
