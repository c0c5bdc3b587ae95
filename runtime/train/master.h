#pragma once
// A split master: the fp32 of a weight as two numbers of 16 bits. They are the nearest bf16 (ties away from zero),
// which products read, and the low 16 bits, as the signed distance from it. Exact for every bit pattern. Kernels do the
// same: dsl/numerics.h.

#include <bit>
#include <cstdint>

namespace cryolite {

struct Master {
    uint16_t high, low;

    static Master split(float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        return {uint16_t((bits + 0x8000) >> 16), uint16_t(bits)};
    }
    float whole() const { return std::bit_cast<float>((uint32_t(high) << 16) + low - (uint32_t(low & 0x8000) << 1)); }
};

}  // namespace cryolite
