#pragma once
// Products of bf16 or fp16 factors, summed in fp32, in the form that dot product instructions have: pairs of terms.

#include <Halide.h>

#include <map>
#include <string>

namespace cryolite::compiler {

/// By the name of a float32 Func of a kernel: the Func of the same values in 16 bits.
using HalfFuncs = std::map<std::string, Halide::Func>;

/// A float32 expression in a type of 16 bits: what it was widened from, else rounded.
Halide::Expr narrowed(const Halide::Expr &e, const HalfFuncs &halves, const Halide::Type &to);

/// How factors of 16 bits are multiplied: in pairs of bf16, whose dot products processors have; in pairs of float32;
/// one by one, as GPUs do.
enum class HalfProducts { dot_products, pairs, single };

/// For f(x, y) += a(x, k) * b(k, y): f(x, y) += a_pairs(p, x, k) * b_pairs(p, y, k), p of extent 2. In bf16 both are of
/// this type for `dot_products`; else, and in fp16, which no instruction multiplies in pairs, float32 of what is
/// rounded to it. `single`: f(x, y) += a(x, k) * b(k, y) of what is rounded. Funcs of another form are returned as
/// they are.
Halide::Func with_half_factors(const Halide::Func &f, const HalfFuncs &halves, const Halide::Type &to,
                               HalfProducts how);

}  // namespace cryolite::compiler
