// The two halves of an fp32 master, and the fp16 beside one.

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "runtime/files/safetensors.h"
#include "runtime/train/master.h"

namespace cryolite::test {

TEST_CASE("master: put together again, every sign, exponent and upper half is as it was") {
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        for (uint32_t lower : {0u, 1u, 0x1234u, 0x7fffu, 0x8000u, 0x8001u, 0xabcdu, 0xffffu}) {
            const uint32_t bits = upper << 16 | lower;
            const Master m = Master::split(std::bit_cast<float>(bits));
            if (std::bit_cast<uint32_t>(m.whole()) != bits) FAIL(bits);
        }
}

TEST_CASE("master: the high half is the nearest bf16") {
    for (float x : {1.0f, -0.7f, 3.14159f, 1e-3f, -65504.0f, 1e-40f}) {
        const float high = std::bit_cast<float>(uint32_t(Master::split(x).high) << 16);
        CHECK(std::abs(high - x) <= std::ldexp(std::abs(x), -8) + 1e-40f);
    }
    CHECK(std::isinf(std::bit_cast<float>(uint32_t(Master::split(INFINITY).high) << 16)));
    CHECK(std::isnan(std::bit_cast<float>(uint32_t(Master::split(NAN).high) << 16)));
}

TEST_CASE("master: the fp16 of a weight is the nearest, ties to even, and infinite from the middle after the largest") {
    for (uint16_t half = 0; half < 0x7c00; half++) {
        const float x = float_from_half(half), next = half == 0x7bff ? 65536 : float_from_half(uint16_t(half + 1));
        const float middle = (x + next) / 2, even = half % 2 ? next : x;
        for (float sign : {1.0f, -1.0f}) {
            auto rounded = [&](float y) {
                const float r = sign * float_from_half(half_from_float(sign * y));
                return std::isinf(r) ? 65536 : r;
            };
            if (rounded(x) != x || rounded(middle) != even || rounded(std::nextafter(middle, 0.0f)) != x ||
                rounded(std::nextafter(middle, INFINITY)) != next)
                FAIL(half);
        }
    }
    CHECK(std::isinf(float_from_half(half_from_float(INFINITY))));
    CHECK(std::isnan(float_from_half(half_from_float(NAN))));
    CHECK(half_from_float(-0.0f) == 0x8000);
}

}  // namespace cryolite::test
