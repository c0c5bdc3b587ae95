#pragma once
// Number formats. They belong to the model: `model.numerics(bf16)`, and `layer.numerics(fp32)` for an exception.
// In bf16, sums, statistics and all that is kept from step to step stay fp32; the master of a weight is split in two.

#include <Halide.h>

namespace cryolite {

enum class Format { fp32, bf16 };
inline constexpr Format fp32 = Format::fp32, bf16 = Format::bf16;

/// A line of the cast table: what a layer of this kind has in bf16. Whatever it says, it computes in fp32.
struct Casts {
    bool inputs = false;  ///< inputs are read in bf16
    bool output = false;  ///< the output may be stored in bf16, and its adjoint
    bool products =
        false;  ///< both factors of its products are rounded to bf16, weights among them; their sums are not
};

/// The nearest bf16, ties to even. Not for NaNs whose upper half has all bits set: nothing that computes makes them.
inline Halide::Expr rounded(const Halide::Expr &x) {
    using namespace Halide;
    Expr bits = reinterpret<uint32_t>(x);
    Expr up = bits + cast<uint32_t>(0x7fff) + ((bits >> 16) & 1);
    return reinterpret(BFloat(16), cast<uint16_t>(up >> 16));
}

/// The float32 of a bf16: its upper half.
inline Halide::Expr widened(const Halide::Expr &half) {
    using namespace Halide;
    return reinterpret<float>(cast<uint32_t>(reinterpret<uint16_t>(half)) << 16);
}

/// A split master: the fp32 of a weight as its high half, the nearest bf16 with ties away from zero, and the low one, a
/// signed distance of 16 bits. Exact for every pattern: with ties to even, even high halves
/// would have one distance too many.
struct MasterExpr {
    Halide::Expr high, low;

    static MasterExpr split(const Halide::Expr &x) {
        using namespace Halide;
        Expr bits = reinterpret<uint32_t>(x), low = cast<uint16_t>(bits);
        // Not (bits + 0x8000) >> 16: Halide takes that for a rounding shift, which minds an overflow and takes eight
        // instructions.
        return {reinterpret(BFloat(16), cast<uint16_t>(bits >> 16) + (low >> 15)), low};
    }
    Halide::Expr whole() const {
        using namespace Halide;
        Expr upper = cast<uint32_t>(reinterpret<uint16_t>(high)) << 16;
        Expr distance = cast<uint32_t>(cast<int32_t>(reinterpret<int16_t>(low)));
        return reinterpret<float>(upper + distance);
    }
};

}  // namespace cryolite
