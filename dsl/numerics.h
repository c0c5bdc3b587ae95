#pragma once
// Number formats in kernels. A model has one, `model.numerics(bf16)`; `layer.numerics(fp32)` is an exception.
// dsl/cast_table.h says which values of a layer are in it. Sums, statistics and all that is kept from step to step are
// fp32: beside a weight that products read in 16 bits, the rest of its fp32 value (its master) is kept.

#include <Halide.h>

#include <set>
#include <string>

#include "dsl/cast_table.h"

namespace cryolite {

/// The type in which arrays of a format are stored.
inline Halide::Type storage_type(Format f) {
    return f == bf16 ? Halide::BFloat(16) : f == fp16 ? Halide::Float(16) : Halide::Float(32);
}

/// `x`, a float32, rounded to the nearest bf16 or fp16, ties to even; infinite beyond the largest fp16. In bf16 a NaN
/// whose upper half has all bits but the sign set would not stay a NaN; arithmetic makes no such NaN.
inline Halide::Expr rounded(const Halide::Expr &x, const Halide::Type &to) {
    using namespace Halide;
    if (!to.is_bfloat()) return cast(to, x);
    Expr bits = reinterpret<uint32_t>(x);
    Expr up = bits + cast<uint32_t>(0x7fff) + ((bits >> 16) & 1);
    return reinterpret(BFloat(16), cast<uint16_t>(up >> 16));
}

/// The float32 of a bf16, which is its upper half, or of an fp16.
inline Halide::Expr widened(const Halide::Expr &half) {
    using namespace Halide;
    if (!half.type().is_bfloat()) return cast<float>(half);
    return reinterpret<float>(cast<uint32_t>(reinterpret<uint16_t>(half)) << 16);
}

/// How a kernel reads the factors of a layer's products, where the cast table has them in 16 bits.
struct HalfFactors {
    Format format = fp32;               ///< what they are rounded to; fp32: they are not
    bool pairs = false;                 ///< products take two terms at a time, by instructions for dot products of bf16
    std::set<std::string> stored = {};  ///< Funcs of the kernel whose values are of this format already
};

/// A weight in two arrays: `narrow`, which products read, and `rest`, with which it is an fp32 again.
/// For bf16 this is a split master: `narrow` is the nearest bf16, ties away from zero, and `rest` the signed distance
/// to the fp32, in 16 bits. It is exact for every bit pattern; with ties to even, an even `narrow` would have 2^16 + 1
/// distances, one too many. For fp16, which is no half of an fp32, `rest` is the fp32 itself.
struct MasterExpr {
    Halide::Expr narrow, rest;

    static MasterExpr split(const Halide::Expr &x, const Halide::Type &to) {
        using namespace Halide;
        if (!to.is_bfloat()) return {rounded(x, to), x};
        Expr bits = reinterpret<uint32_t>(x), low = cast<uint16_t>(bits);
        // Not (bits + 0x8000) >> 16: Halide makes a rounding shift of it, which guards against overflow and takes eight
        // instructions.
        return {reinterpret(BFloat(16), cast<uint16_t>(bits >> 16) + (low >> 15)), low};
    }
    Halide::Expr whole() const {
        using namespace Halide;
        if (rest.type() == Float(32)) return rest;
        Expr upper = cast<uint32_t>(reinterpret<uint16_t>(narrow)) << 16;
        Expr distance = cast<uint32_t>(cast<int32_t>(reinterpret<int16_t>(rest)));
        return reinterpret<float>(upper + distance);
    }
};

}  // namespace cryolite
