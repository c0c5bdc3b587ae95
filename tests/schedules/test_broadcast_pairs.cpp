// The lowering pass that loads a pair of a panel once for all lanes: where it may, and where a panel parts pairs.

#include "schedules/cpu/broadcast_pairs.h"

#include <doctest/doctest.h>

#include "tests/support/lowered.h"

namespace cryolite::test {

using namespace Halide;

namespace {

/// sums(y) = sum_o w(o, 1) b(y, o) in pairs of o, `w` in panels of `panel`; its error and its lowered text.
struct Sums {
    static constexpr int terms = 1008, rows = 32;
    std::string text;
    float farthest = 0;

    Sums(int panel, int inputs) {
        Buffer<bfloat16_t> w(panel, inputs, terms / panel), b(2, rows, terms / 2);
        w.fill(bfloat16_t(100.f));
        for (int o = 0; o < terms; o++) w(o % panel, 1, o / panel) = bfloat16_t(float(o % 11 - 5));
        b.for_each_element([&](int p, int y, int k) { b(p, y, k) = bfloat16_t(float((7 * p + 3 * y + k) % 13 - 6)); });
        ImageParam stored(BFloat(16), 3, "stored");
        stored.set(w);
        stored.dim(0).set_bounds(0, panel);
        stored.dim(1).set_stride(panel).set_bounds(0, inputs);
        stored.dim(2).set_stride(panel * inputs).set_bounds(0, terms / panel);
        Var p("p"), k("k"), y("y");
        Func a("a"), sums("sums");
        a(p, k) = stored((2 * k + p) % panel, 1, (2 * k + p) / panel);
        RDom r(0, 2, 0, terms / 2);
        sums(y) += cast<float>(a(r.x, r.y)) * cast<float>(b(r.x, y, r.y));
        Var lane("lane");
        sums.update()
            .split(y, y, lane, 16)
            .reorder({RVar(r.x), lane, y, RVar(r.y)})
            .atomic()
            .vectorize(lane)
            .vectorize(r.x);
        Pipeline pipeline(sums);
        cpu::broadcast_pairs(pipeline);
        text = lowered_text(pipeline, {stored});
        Buffer<float> got = pipeline.realize({rows});
        for (int row = 0; row < rows; row++) {
            float sum = 0;
            for (int o = 0; o < terms; o++) sum += float(w(o % panel, 1, o / panel)) * float(b(o % 2, row, o / 2));
            farthest = std::max(farthest, std::abs(sum - got(row)));
        }
    }
};

}  // namespace

TEST_CASE("broadcast pairs: loaded once for all lanes where panels are even, and only there") {
    for (int inputs : {3, 4, 1024})  // Halide shifts by powers of two
        for (int panel : {3, 6, 7, 8, 12, 16, 21, 42, 48}) {
            CAPTURE(inputs);
            CAPTURE(panel);
            const Sums s(panel, inputs);
            CHECK(s.farthest == 0);
            CHECK((s.text.find("reinterpret<bfloat16x32>(x16(stored[") != s.text.npos) == (panel % 2 == 0));
            CHECK((s.text.find("x16(stored[") != s.text.npos) == (panel % 2 == 0));
        }
}

}  // namespace cryolite::test
