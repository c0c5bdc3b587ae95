#pragma once
// What derived gradients treat as a constant.

#include <Halide.h>

namespace cryolite {

/// The value of `e`, through which no gradient is derived: the row maximum that a softmax subtracts, a mask, a target.
///     w(j, t) = exp(S(j, t) - stop_gradient(maximum(n, S(n, t))));
/// `e` may read Funcs and depend on Vars and reduction variables. A gradient that is written by hand is not affected.
Halide::Expr stop_gradient(const Halide::Expr &e);

/// The same of a Func, with all values of a Tuple.
Halide::Func stop_gradient(const Halide::Func &f);

/// Whether a Func is one that `stop_gradient` made.
bool stops_gradient(const Halide::Internal::Function &f);

}  // namespace cryolite
