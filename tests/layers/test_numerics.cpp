// Formats inside kernels: rounding, and masters beside what products read.

#include <bit>
#include <cmath>
#include <cstring>

#include "dsl/ghost_norm.h"
#include "dsl/numerics.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

/// Every upper half, with lower halves on both sides of a tie.
constexpr int uppers = 0x10000, lowers = 8;
uint32_t pattern(int upper, int lower) {
    const uint32_t list[lowers] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xabcd, 0xffff};
    return uint32_t(upper) << 16 | list[lower];
}

/// f of the float with each pattern, as bits.
std::vector<uint32_t> bits_of(const std::function<Halide::Expr(Halide::Expr)> &f) {
    std::string bytes = in_child([&] {
        Halide::Buffer<uint32_t> in(lowers, uppers);
        for (int u = 0; u < uppers; u++)
            for (int l = 0; l < lowers; l++) in(l, u) = pattern(u, l);
        Halide::Var l("l"), u("u");
        Halide::Func g("g");
        g(l, u) = Halide::reinterpret<uint32_t>(f(Halide::reinterpret<float>(in(l, u))));
        g.vectorize(l, 8);
        Halide::Buffer<uint32_t> out = g.realize({lowers, uppers});
        return std::string(reinterpret_cast<char *>(out.data()), out.size_in_bytes());
    });
    std::vector<uint32_t> bits(bytes.size() / 4);
    std::memcpy(bits.data(), bytes.data(), bytes.size());
    return bits;
}

}  // namespace

TEST_CASE("numerics: a master is exact for every sign and exponent, NaNs and denormals too") {
    for (Format f : {bf16, fp16}) {
        std::vector<uint32_t> got =
            bits_of([f](Halide::Expr x) { return MasterExpr::split(x, storage_type(f)).whole(); });
        int wrong = 0;
        for (int u = 0; u < uppers; u++)
            for (int l = 0; l < lowers; l++) wrong += got[size_t(u * lowers + l)] != pattern(u, l);
        CHECK(wrong == 0);
    }
}

TEST_CASE("numerics: values are rounded to the nearest fp16, ties to even; beyond the largest they are infinite") {
    std::vector<uint32_t> got = bits_of([](Halide::Expr x) { return widened(rounded(x, Halide::Float(16))); });
    int wrong = 0, infinite = 0;
    for (int u = 0; u < uppers; u++)
        for (int l = 0; l < lowers; l++) {
            const uint32_t bits = pattern(u, l);
            if ((bits & 0x7f800000) == 0x7f800000) continue;  // infinite, or not a number
            const double x = std::bit_cast<float>(bits), place = std::max(std::fabs(x), 0x1p-14);
            const double unit = std::ldexp(1.0, std::ilogb(place) - 10);  // of the last place
            double expected = std::nearbyint(x / unit) * unit;
            if (std::fabs(expected) >= 65536) expected = std::copysign(INFINITY, x), infinite++;
            wrong += std::bit_cast<float>(got[size_t(u * lowers + l)]) != expected;
        }
    CHECK(wrong == 0);
    CHECK(infinite > 0);
    CHECK((got[0x7fc0 * lowers] & 0x7fff0000) > 0x7f800000);
}

TEST_CASE("numerics: values are rounded to the nearest bf16, ties to even") {
    std::vector<uint32_t> got = bits_of([](Halide::Expr x) { return widened(rounded(x, Halide::BFloat(16))); });
    int wrong = 0;
    for (int u = 0; u < uppers; u++)
        for (int l = 0; l < lowers; l++) {
            const uint32_t bits = pattern(u, l), low = bits & 0xffff;
            if ((bits & 0x7f800000) == 0x7f800000) continue;  // infinite, or not a number
            const bool up = low > 0x8000 || (low == 0x8000 && (bits >> 16 & 1));
            wrong += got[size_t(u * lowers + l)] != ((bits >> 16) + up) << 16;
        }
    CHECK(wrong == 0);
    CHECK(got[0x7f80 * lowers] == 0x7f800000);
    CHECK((got[0x7fc0 * lowers] & 0x7fff0000) > 0x7f800000);
}

TEST_CASE("numerics: a gradient whose bound is a finite float is finite") {
    static constexpr int rows = 11, wide = 5, high = 7;
    // The bound, and the largest element of sum_m a_m b_m', with a(2, 3) = `one` and b(4, 3) = `other`.
    auto bound_and_largest = [](float one, float other) {
        std::string bytes = in_child([&] {
            Halide::Buffer<float> a(wide, rows), b(high, rows);
            for (int m = 0; m < rows; m++) {
                for (int i = 0; i < wide; i++) a(i, m) = float(i - m % 3);
                for (int j = 0; j < high; j++) b(j, m) = float(1 + (j * m) % 4);
            }
            a(2, 3) = one, b(4, 3) = other;
            Halide::Var k("k"), m("m");
            Halide::Func first("a"), second("b");
            first(k, m) = a(k, m), second(k, m) = b(k, m);
            GhostBound g(Factors{{first, wide}, {second, high}, rows});
            Halide::Buffer<double> of = g.bound.realize({1});
            float values[2] = {float(of(0)), 0};
            for (int i = 0; i < wide; i++)
                for (int j = 0; j < high; j++) {
                    float sum = 0;
                    for (int r = 0; r < rows; r++) sum += a(i, r) * b(j, r);
                    if (std::isfinite(values[1]) && !(std::fabs(sum) <= values[1])) values[1] = std::fabs(sum);
                }
            return std::string(reinterpret_cast<const char *>(values), sizeof values);
        });
        std::pair<float, float> both;
        std::memcpy(&both.first, bytes.data(), sizeof(float));
        std::memcpy(&both.second, bytes.data() + sizeof(float), sizeof(float));
        return both;
    };
    const auto [bound, largest] = bound_and_largest(1, 2);
    CHECK(std::isfinite(bound));
    CHECK(bound >= largest);
    CHECK(largest > 0);
    for (auto [one, other] :
         {std::pair{INFINITY, 0.0f}, {NAN, 1.0f}, {1.0f, -INFINITY}, {3e25f, 3e25f}, {3e38f, 2.0f}}) {
        const auto [of_bad, bad] = bound_and_largest(one, other);
        CAPTURE(one);
        CHECK_FALSE(std::isfinite(bad));
        CHECK_FALSE(std::isfinite(of_bad));
    }
}

}  // namespace cryolite::test
