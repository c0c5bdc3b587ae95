#include "runtime/system/rng.h"

#include "runtime/io/error.h"
#include "runtime/system/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cryolite {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t p = uint64_t{0xD2511F53u} * c[0], q = uint64_t{0xCD9E8D57u} * c[2];
        c = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(q),
             static_cast<uint32_t>(p >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p)};
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return c;
}

namespace {

/// In [0, 1) with 24 bits, as a float has.
float unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Two independent normal numbers from two uniform ones.
void box_muller(uint32_t a, uint32_t b, float *out) {
    // 32 bits and a half, so that the logarithm is finite and the tail reaches 6.6.
    const float radius = std::sqrt(-2 * std::log((static_cast<float>(a) + 0.5f) * 0x1p-32f));
    const float angle = 2 * std::numbers::pi_v<float> * unit(b);
    out[0] = radius * std::cos(angle);
    out[1] = radius * std::sin(angle);
}

/// Calls generate(block, float[4]) for every block of four and stores what belongs to `out`.
template <typename Generate> void fill_blocks(std::span<float> out, uint64_t first, Generate generate) {
    if (first % 4 != 0) fail("random fill: first index {} is not a multiple of 4", first);
    const int64_t blocks = static_cast<int64_t>((out.size() + 3) / 4);
#ifdef _OPENMP
    if (blocks > 4096) require_threads(omp_get_max_threads());
#pragma omp parallel for if (blocks > 4096)
#endif
    for (int64_t b = 0; b < blocks; ++b) {
        float four[4];
        generate(first / 4 + static_cast<uint64_t>(b), four);
        const size_t begin = static_cast<size_t>(b) * 4;
        std::copy_n(four, std::min<size_t>(4, out.size() - begin), out.data() + begin);
    }
}

}  // namespace

void fill_normal(std::span<float> out, const Rng &rng, float mean, float std, uint64_t first) {
    fill_blocks(out, first, [&](uint64_t block, float *four) {
        const auto bits = rng.block(block);
        box_muller(bits[0], bits[1], four);
        box_muller(bits[2], bits[3], four + 2);
        for (int i = 0; i < 4; ++i) four[i] = mean + std * four[i];
    });
}

void fill_uniform(std::span<float> out, const Rng &rng, float low, float high, uint64_t first) {
    fill_blocks(out, first, [&](uint64_t block, float *four) {
        const auto bits = rng.block(block);
        for (int i = 0; i < 4; ++i) {
            four[i] = low + (high - low) * unit(bits[i]);
            if (four[i] >= high) four[i] = low;  // rounding reached the open end
        }
    });
}

}  // namespace cryolite
