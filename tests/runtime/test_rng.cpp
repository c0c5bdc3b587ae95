#include "runtime/system/rng.h"
#include "tests/runtime/scratch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace cryolite::test {

TEST_CASE("rng: Philox4x32-10 gives the known answers of Random123") {
    using Four = std::array<uint32_t, 4>;
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("rng: normal numbers have the asked mean, deviation and tails") {
    std::vector<float> values(1 << 20);
    fill_normal(values, Rng(7, "w"), 3.0f, 0.02f);
    double sum = 0, square = 0;
    int beyond_two = 0, beyond_four = 0;
    for (float v : values) {
        const double z = (v - 3.0) / 0.02;
        sum += z;
        square += z * z;
        beyond_two += std::abs(z) > 2;
        beyond_four += std::abs(z) > 4;
    }
    const double n = static_cast<double>(values.size());
    CHECK(std::abs(sum / n) < 0.004);
    CHECK(std::abs(square / n - 1) < 0.006);
    CHECK(beyond_two / n == doctest::Approx(0.0455).epsilon(0.02));
    CHECK(beyond_four > 20);  // 66 expected
    CHECK(beyond_four < 130);
    CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
}

TEST_CASE("rng: a fill is a pure function of seed, stream and index") {
    std::vector<float> whole(1003), parts(1003), other(1003);
    const Rng rng(1, "wte");
    fill_normal(whole, rng, 0, 1);
    fill_normal(std::span(parts).subspan(400), rng, 0, 1, 400);
    fill_normal(std::span(parts).first(400), rng, 0, 1);
    CHECK(whole == parts);
    fill_normal(other, Rng(2, "wte"), 0, 1);
    CHECK(whole != other);
    fill_normal(other, Rng(1, "wpe"), 0, 1);
    CHECK(whole != other);
    CHECK_ERROR(fill_normal(other, rng, 0, 1, 2), "not a multiple of 4");
}

TEST_CASE("rng: uniform numbers stay in their range and reach all of it") {
    const Rng rng(3, "data");
    std::map<uint64_t, int> count;
    for (uint64_t i = 0; i < 70000; ++i) ++count[rng.below(7, i)];
    CHECK(count.size() == 7);
    for (const auto &[value, times] : count) {
        CHECK(value < 7);
        CHECK(std::abs(times - 10000) < 500);
    }
    CHECK(rng.below(1, 5) == 0);
    std::vector<float> values(100001);
    fill_uniform(values, rng, -2, 3);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    CHECK(*low >= -2);
    CHECK(*low < -1.99f);
    CHECK(*high < 3);
    CHECK(*high > 2.99f);
    CHECK(rng.uniform(4) >= 0);
    CHECK(rng.uniform(4) < 1);
}

}  // namespace cryolite::test
