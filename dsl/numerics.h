#pragma once
// Number formats in kernels. They belong to the model: `model.numerics(bf16)`, and `layer.numerics(fp32)` for an
// exception; dsl/cast_table.h says what layers have in them. Sums, statistics and all that is kept from step to step
// are fp32: beside a weight that products read in 16 bits there is what makes it an fp32 again, its master.

#include <Halide.h>

#include <set>
#include <string>

#include "dsl/cast_table.h"

namespace cryolite {

/// What arrays of a narrow format are stored in.
inline Halide::Type storage_type(Format f) {
    return f == bf16 ? Halide::BFloat(16) : f == fp16 ? Halide::Float(16) : Halide::Float(32);
}

/// A float32 as the nearest bf16 or fp16, ties to even; beyond the largest fp16, infinite. In bf16 not for NaNs whose
/// upper half has all bits set: nothing that computes makes them.
inline Halide::Expr rounded(const Halide::Expr &x, const Halide::Type &to) {
    using namespace Halide;
    if (!to.is_bfloat()) return cast(to, x);
    Expr bits = reinterpret<uint32_t>(x);
    Expr up = bits + cast<uint32_t>(0x7fff) + ((bits >> 16) & 1);
    return reinterpret(BFloat(16), cast<uint16_t>(up >> 16));
}

/// The float32 of a bf16, whose upper half it is, or of an fp16.
inline Halide::Expr widened(const Halide::Expr &half) {
    using namespace Halide;
    if (!half.type().is_bfloat()) return cast<float>(half);
    return reinterpret<float>(cast<uint32_t>(reinterpret<uint16_t>(half)) << 16);
}

/// How a kernel reads the factors of a layer's products, where the cast table has them in 16 bits.
struct HalfFactors {
    Format format = fp32;          ///< what they are rounded to; fp32: they are not
    bool pairs = false;            ///< two terms an instruction: the machine has dot products of bf16
    std::set<std::string> stored;  ///< Funcs of the kernel whose values are of this format already
};

/// A weight as two arrays hold it: narrow, as products read it, and what is kept beside.
/// In bf16 a split master: the high half, the nearest bf16 with ties away from zero, and the low one, a
/// signed distance of 16 bits. Exact for every pattern: with ties to even, even high halves would have one distance too
/// many. In fp16, which is no half of an fp32, the nearest one and the fp32 itself.
struct MasterExpr {
    Halide::Expr narrow, rest;

    static MasterExpr split(const Halide::Expr &x, const Halide::Type &to) {
        using namespace Halide;
        if (!to.is_bfloat()) return {rounded(x, to), x};
        Expr bits = reinterpret<uint32_t>(x), low = cast<uint16_t>(bits);
        // Not (bits + 0x8000) >> 16: Halide takes that for a rounding shift, which minds an overflow and takes eight
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
