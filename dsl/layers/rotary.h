#pragma once

#include <Halide.h>

#include <cmath>

namespace cryolite {

/// Rotary positions: channels e and e + D/2 of a head of D channels, e < D/2, turn by the angle t f(e) at position t,
/// f(e) = base^(-2e/D).   RoFormer: Enhanced Transformer with Rotary Position Embedding, Su et al., 2021; pairs are
/// split by halves, as in Llama's checkpoints of Hugging Face.
struct Rotary {
    double base = 10000;
    /// Llama 3's scaling for long contexts; 1: none. Wavelengths above original / low grow by `factor`, those below
    /// original / high stay, and between them f is interpolated.   The Llama 3 Herd of Models, 2024.
    double factor = 1, low = 1, high = 4;
    int original = 8192;  ///< context that the base was trained with

    /// f(e), float64.
    Halide::Expr frequency(Halide::Expr e, int size) const {
        using namespace Halide;
        Expr f = pow(cast<double>(Expr(base)), cast<double>(e) * Expr(-2.0 / size));
        if (factor == 1) return f;
        Expr turns = f * Expr(original / (2 * M_PI));  // in the original context
        Expr smooth = clamp((turns - Expr(low)) / Expr(high - low), Expr(0.0), Expr(1.0));
        return f * (smooth + (Expr(1.0) - smooth) / Expr(factor));
    }
};

}  // namespace cryolite
