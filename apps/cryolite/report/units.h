#pragma once
// Units in which numbers for people are neither 0.000 nor long.

#include <string>

#include <fmt/format.h>

namespace cryolite {

struct Unit {
    double size;
    std::string name;
};

/// The unit of a column with this largest number: mega, or a smaller one if mega would show nothing but zeros.
inline Unit column_unit(double largest, const std::string &of) {
    if (largest >= 1e5) return {1e6, "M" + of};
    return largest >= 100 ? Unit{1e3, "k" + of} : Unit{1, of};
}

/// "1.234 GFLOP", "12.345 MFLOP"
inline std::string flop_words(double flops) {
    if (flops >= 1e9) return fmt::format("{:.3f} GFLOP", 1e-9 * flops);
    if (flops >= 1e6) return fmt::format("{:.3f} MFLOP", 1e-6 * flops);
    return flops >= 1e3 ? fmt::format("{:.3f} kFLOP", 1e-3 * flops) : fmt::format("{:.0f} FLOP", flops);
}

/// "12.34 ms", "0.0312 ms"
inline std::string milliseconds(double seconds) {
    return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 1e-3 ? 4 : 2);
}

}  // namespace cryolite
