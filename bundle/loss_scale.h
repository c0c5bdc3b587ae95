#pragma once
// Dynamic loss scaling of an fp16 step: the scale that it begins with, and the numbers by which kernels change it.
// Mixed Precision Training, Micikevicius et al., 2018; the numbers are those of PyTorch's GradScaler.

#include <cmath>

namespace cryolite {

/// The factor of the loss in the first step, a power of two: that changes no bit of a gradient but its exponent.
inline constexpr double initial_loss_scale = 65536;
/// The range of the scale in the first step. Below 1, adjoints would underflow that do not without a scale.
inline constexpr double least_first_loss_scale = 1, largest_first_loss_scale = 0x1p24;
/// The range that the scale never leaves, so that it and its inverse are finite.
inline constexpr double least_loss_scale = 0x1p-126, largest_loss_scale = 0x1p126;

/// A number that kernels read. The scale is multiplied by `growth` after `interval` updates in a row, and by `backoff`
/// where a gradient is not finite.
struct LossScaleNumber {
    const char *name;
    double value;
};
inline constexpr LossScaleNumber loss_scale_numbers[] = {
    {"loss_scale_growth", 2}, {"loss_scale_backoff", 0.5}, {"loss_scale_interval", 2000}};

/// Whether x is a power of two; false for zero, negative numbers, infinities and NaNs.
inline bool is_power_of_two(double x) {
    int exponent = 0;
    return std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
}

}  // namespace cryolite
