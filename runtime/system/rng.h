#pragma once
// Random numbers without a state: each is a pure function of (seed, stream, index), so that what a
// run draws does not depend on the order, the threads or where it was resumed. Philox4x32-10:
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; it passes TestU01's
// BigCrush.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace cryolite {

/// Four 32-bit numbers from a counter and a key (10 rounds).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A stream for each purpose or parameter, from its name: FNV-1a, 64 bits.
constexpr uint64_t stream_named(std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

/// One stream of numbers, read at any index.
struct Rng {
    uint64_t seed = 0, stream = 0;

    Rng(uint64_t seed, uint64_t stream) : seed(seed), stream(stream) {}
    Rng(uint64_t seed, std::string_view name) : Rng(seed, stream_named(name)) {}

    /// The 128 bits at `index`.
    std::array<uint32_t, 4> block(uint64_t index) const {
        return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream),
                       static_cast<uint32_t>(stream >> 32)},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    }

    uint64_t bits(uint64_t index) const {
        const auto b = block(index);
        return uint64_t{b[1]} << 32 | b[0];
    }

    /// Uniform in 0 ... bound - 1 (bound > 0); the bias is below bound / 2^64.
    uint64_t below(uint64_t bound, uint64_t index) const {
        return static_cast<uint64_t>(static_cast<unsigned __int128>(bits(index)) * bound >> 64);
    }

    /// Uniform in [0, 1): 53 bits.
    double uniform(uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }
};

/// out[i] = mean + std * z_i, z from N(0, 1) by Box-Muller: numbers 4 b ... 4 b + 3 come from block
/// b. `first` is the index of out[0] in the stream, a multiple of 4, for filling a tensor in parts.
void fill_normal(std::span<float> out, const Rng &rng, float mean, float std, uint64_t first = 0);

/// out[i] uniform in [low, high).
void fill_uniform(std::span<float> out, const Rng &rng, float low, float high, uint64_t first = 0);

}  // namespace cryolite
