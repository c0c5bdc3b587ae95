// The lowering pass that transposes pairs of 16 bits eight columns at a time: where panels and lengths are whole, and
// only there.

#include "schedules/cpu/transpose_pairs.h"

#include <doctest/doctest.h>

#include "tests/support/lowered.h"

namespace cryolite::test {

using namespace Halide;

namespace {

/// pairs(p, x, k) = w(2 k + p, x), `w` in panels of `panel` columns, `lanes` rows x at a time.
struct Copied {
    static constexpr int rows = 48;
    std::string text;
    int wrong = 0;

    Copied(int panel, int terms, int lanes, bool chunks = false) {
        Buffer<uint16_t> w(panel, rows, (terms + panel - 1) / panel);
        w.for_each_element([&](int o, int x, int b) { w(o, x, b) = uint16_t(1 + o + panel * b + 1009 * x); });
        ImageParam stored(UInt(16), 3, "stored");
        stored.set(w);
        stored.dim(0).set_bounds(0, panel);
        stored.dim(1).set_stride(panel).set_bounds(0, rows);
        stored.dim(2).set_stride(panel * rows).set_bounds(0, w.dim(2).extent());
        Var p("p"), x("x"), k("k"), ko("ko");
        Func pairs("pairs"), out("out");
        pairs(p, x, k) = stored((2 * k + p) % panel, x, (2 * k + p) / panel);
        out(p, x, k) = pairs(p, x, k);
        out.bound(p, 0, 2).bound(x, 0, rows).bound(k, 0, terms / 2);
        if (chunks) out.split(k, ko, k, 40, TailStrategy::RoundUp);
        pairs.compute_at(out, chunks ? ko : Var::outermost()).reorder(p, x, k).vectorize(x, lanes).unroll(p);
        Pipeline pipeline(out);
        cpu::transpose_pairs(pipeline);
        text = lowered_text(pipeline, {stored});
        Buffer<uint16_t> got = pipeline.realize({2, rows, terms / 2});
        got.for_each_element(
            [&](int q, int r, int c) { wrong += got(q, r, c) != w((2 * c + q) % panel, r, (2 * c + q) / panel); });
    }
    bool transposed() const { return text.find(".eighth") != text.npos; }
};

}  // namespace

TEST_CASE("transpose pairs: eight columns at a time where panels and lengths are multiples of 16") {
    for (int lanes : {8, 16})
        for (int panel : {16, 24, 32, 48, 64})
            for (int terms : {48, 96, 100, 144, 192}) {
                CAPTURE(lanes);
                CAPTURE(panel);
                CAPTURE(terms);
                const Copied c(panel, terms, lanes);
                CHECK(c.wrong == 0);
                CHECK(c.transposed() == (panel % 16 == 0 && terms % 16 == 0));
            }
}

TEST_CASE("transpose pairs: chunks that begin inside of a panel, and lanes that are no whole groups") {
    const Copied chunks(48, 240, 16, true);
    CHECK(chunks.wrong == 0);
    CHECK(chunks.transposed());
    const Copied four(48, 96, 4);
    CHECK(four.wrong == 0);
    CHECK(!four.transposed());
}

}  // namespace cryolite::test
