#pragma once
// The learning rate of every step.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace cryolite {

/// Rises as (i + 1) / (warmup + 1), then falls on a cosine to `low` at the last step (nanoGPT).
struct LearningRate {
    double high = 1e-3, low = 1e-4;
    uint64_t warmup = 0, steps = 1;

    /// Of step `i`, counted from 0.
    double at(uint64_t i) const {
        if (i < warmup) return high * double(i + 1) / double(warmup + 1);
        const uint64_t fall = steps > warmup + 1 ? steps - 1 - warmup : 1;
        const double ratio = std::min(1.0, double(i - warmup) / double(fall));
        return low + 0.5 * (1 + std::cos(std::numbers::pi * ratio)) * (high - low);
    }
};

}  // namespace cryolite
