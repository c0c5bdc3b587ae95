#pragma once
// Elements of the formats of a GPU's products, as the host reads and writes them.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cryolite::test {

/// As NVIDIA numbers them.
enum Format { float32 = 0, float16 = 2, bfloat16 = 14 };

/// To so many bits of the fraction, ties to even; what is not finite stays.
inline float rounded(float x, int bits) {
    if (!std::isfinite(x)) return x;
    const int drop = 23 - bits;
    uint32_t u = std::bit_cast<uint32_t>(x);
    u += (1u << (drop - 1)) - 1 + (u >> drop & 1);
    return std::bit_cast<float>(u >> drop << drop);
}

inline int bytes_of(int format) { return format == float32 ? 4 : 2; }

inline float half_to_float(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    float x = exponent ? std::ldexp(float(1024 + fraction), exponent - 25) : std::ldexp(float(fraction), -24);
    if (exponent == 31) x = fraction ? NAN : INFINITY;
    return h >> 15 ? -x : x;
}
/// As conversions of a GPU: what is too large becomes infinite.
inline uint16_t float_to_half(float x) {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return 0x7fff;
    const float a = std::fabs(x);
    if (a < 0x1p-14f) return sign | uint16_t(std::nearbyint(std::ldexp(a, 24)));
    const float r = rounded(a, 10);
    if (r > 65504) return sign | 0x7c00;
    int exponent = 0;
    const float fraction = std::frexp(r, &exponent);
    return sign | uint16_t((exponent + 14) << 10 | (int(std::ldexp(fraction, 11)) & 1023));
}

inline float load(const void *at, int64_t i, int format) {
    if (format == float32) return static_cast<const float *>(at)[i];
    const uint16_t h = static_cast<const uint16_t *>(at)[i];
    return format == float16 ? half_to_float(h) : std::bit_cast<float>(uint32_t(h) << 16);
}
inline void store(void *at, int64_t i, int format, float x) {
    if (format == float32)
        static_cast<float *>(at)[i] = x;
    else if (format == float16)
        static_cast<uint16_t *>(at)[i] = float_to_half(x);
    else
        static_cast<uint16_t *>(at)[i] = uint16_t(std::bit_cast<uint32_t>(rounded(x, 7)) >> 16);
}

}  // namespace cryolite::test
