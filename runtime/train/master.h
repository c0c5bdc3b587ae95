#pragma once
// The fp32 master of a weight as two halves: the nearest bf16 (ties away from zero), which products read, and how far
// the master lies from it. Exact for every pattern of bits. Kernels do the same: dsl/numerics.h.

#include <bit>
#include <cstdint>

namespace cryolite {

struct Master {
    uint16_t half, remainder;

    static Master split(float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        return {uint16_t((bits + 0x8000) >> 16), uint16_t(bits)};
    }
    float whole() const {
        return std::bit_cast<float>((uint32_t(half) << 16) + remainder - (uint32_t(remainder & 0x8000) << 1));
    }
};

}  // namespace cryolite
