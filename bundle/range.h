#pragma once
// What a number may be.

#include <cstdint>
#include <limits>

namespace cryolite {

struct WholeRange {
    uint64_t low = 0, high = std::numeric_limits<uint64_t>::max();
};

/// `above`, `below`: the end itself is excluded.
struct RealRange {
    double low = std::numeric_limits<double>::lowest(), high = std::numeric_limits<double>::max();
    bool above = false, below = false;

    static const RealRange finite, positive, not_negative, fraction;
    bool holds(double x) const { return (above ? x > low : x >= low) && (below ? x < high : x <= high); }  // no NaN
    bool operator==(const RealRange &) const = default;
};

inline constexpr RealRange RealRange::finite{};
inline constexpr RealRange RealRange::positive{.low = 0, .high = 1e30, .above = true};
inline constexpr RealRange RealRange::not_negative{.low = 0, .high = 1e30};
inline constexpr RealRange RealRange::fraction{.low = 0, .high = 1, .below = true};  ///< from 0 to below 1

/// The range of a power of two: a factor that changes nothing but exponents.
struct PowerOfTwo {
    double low, high;
    bool operator==(const PowerOfTwo &) const = default;
};

}  // namespace cryolite
