#pragma once
// Products of bf16 factors, summed in fp32, in the form that dot product instructions have: pairs of terms.

#include <Halide.h>

#include <map>
#include <string>

namespace cryolite::compiler {

/// By the name of a float32 Func of a kernel: the Func of the same values in bf16.
using Bf16Funcs = std::map<std::string, Halide::Func>;

/// A float32 expression in bf16: what it was widened from, else rounded.
Halide::Expr narrowed(const Halide::Expr &e, const Bf16Funcs &in_bf16);

/// For f(x, y) += a(x, k) * b(k, y): f(x, y) += a_pairs(p, x, k) * b_pairs(p, y, k), both bf16, p of extent 2. Funcs of
/// another form are returned as they are.
Halide::Func with_half_factors(const Halide::Func &f, const Bf16Funcs &in_bf16);

}  // namespace cryolite::compiler
