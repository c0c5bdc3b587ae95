#pragma once
// Products of bf16 or fp16 factors, summed in fp32, in the form that dot product instructions have: pairs of terms.

#include <Halide.h>

#include <map>
#include <string>

namespace cryolite::compiler {

/// Funcs of values in 16 bits, by the names of the float32 Funcs of the same values in a kernel.
using HalfFuncs = std::map<std::string, Halide::Func>;

/// A float32 expression in a type of 16 bits: the value that it was widened from, or else the expression rounded.
Halide::Expr narrowed(const Halide::Expr &e, const HalfFuncs &halves, const Halide::Type &to);

/// How factors of 16 bits are multiplied: in pairs of bf16, for the dot product instructions of processors, or for
/// those that multiply tiles; in pairs of float32; one by one, as on GPUs.
enum class HalfProducts { dot_products, tiles, pairs, single };

/// Rewrites f(x, y) += a(x, k) * b(k, y) for factors of 16 bits. In pairs it becomes f(x, y) += a_pairs(p, x, k) *
/// b_pairs(p, y, k), with p of extent 2. The pairs are of bf16 for `dot_products` and `tiles`. For `pairs`, and in
/// fp16, which no instruction multiplies in pairs, they are of float32, rounded to 16 bits before. `single` keeps the
/// form, with rounded factors. A Func of another form is returned as it is.
Halide::Func with_half_factors(const Halide::Func &f, const HalfFuncs &halves, const Halide::Type &to,
                               HalfProducts how);

/// Rewrites f(x, y) += a(x, k) * b(k, y) for processors that multiply tiles of bf16. Each factor is the sum of three
/// bf16, a_pairs, a_pairs_middle and a_pairs_low, and six products of such parts are added: as precise as in float32.
/// A factor that is infinite, or that rounds to an infinite bf16 (above 3.39e38), gives NaN. A Func of another form, or
/// so small that it does not pay, is returned as it is.
Halide::Func with_split_factors(const Halide::Func &f, int columns, int64_t rows);

}  // namespace cryolite::compiler
