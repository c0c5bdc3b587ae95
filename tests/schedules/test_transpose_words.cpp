// The lowering pass that transposes words, pairs of 16 bits or float32, eight columns at a time: where panels and
// lengths are whole, and only there.

#include "schedules/cpu/transpose_words.h"

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
        cpu::transpose_words(pipeline);
        text = lowered_text(pipeline, {stored});
        Buffer<uint16_t> got = pipeline.realize({2, rows, terms / 2});
        got.for_each_element(
            [&](int q, int r, int c) { wrong += got(q, r, c) != w((2 * c + q) % panel, r, (2 * c + q) / panel); });
    }
    bool transposed() const { return text.find(".eighth") != text.npos; }
};

/// column(x, o) = w(o, x), `w` float32 in panels of `panel` columns, `lanes` rows x at a time.
struct CopiedFloats {
    std::string text;
    int wrong = 0;

    CopiedFloats(int panel, int columns, int rows, int lanes) {
        Buffer<float> w(panel, rows, (columns + panel - 1) / panel);
        w.for_each_element([&](int o, int x, int b) { w(o, x, b) = float(o + panel * b + 1009 * x); });
        ImageParam stored(Float(32), 3, "stored");
        stored.set(w);
        stored.dim(0).set_bounds(0, panel);
        stored.dim(1).set_stride(panel).set_bounds(0, rows);
        stored.dim(2).set_stride(panel * rows).set_bounds(0, w.dim(2).extent());
        Var x("x"), o("o"), lane("lane");
        Func column("column"), out("out");
        column(o, x) = stored(o % panel, x, o / panel);
        out(x, o) = column(o, x);
        out.bound(x, 0, rows).bound(o, 0, columns);
        column.compute_root().reorder_storage(x, o).reorder(x, o);
        column.split(x, x, lane, lanes, TailStrategy::ShiftInwards).vectorize(lane);
        Pipeline pipeline(out);
        cpu::transpose_words(pipeline);
        text = lowered_text(pipeline, {stored});
        Buffer<float> got = pipeline.realize({rows, columns});
        got.for_each_element([&](int r, int c) { wrong += got(r, c) != w(c % panel, r, c / panel); });
    }
    bool transposed() const { return text.find(".eighth") != text.npos; }
};

}  // namespace

TEST_CASE("transpose words: float32, in whole vectors of whole panels") {
    for (int lanes : {8, 16})
        for (int panel : {16, 48, 50})
            for (int columns : {96, 100})
                for (int rows : {48, 53}) {
                    CAPTURE(lanes);
                    CAPTURE(panel);
                    CAPTURE(columns);
                    CAPTURE(rows);
                    const CopiedFloats c(panel, columns, rows, lanes);
                    CHECK(c.wrong == 0);
                    CHECK(c.transposed() == (panel % 8 == 0 && columns % 8 == 0 && rows % lanes == 0));
                }
    CHECK(!CopiedFloats(48, 96, 48, 4).transposed());
}

TEST_CASE("transpose words: pairs, eight columns at a time where panels and lengths are multiples of 16") {
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

TEST_CASE("transpose words: pairs in chunks that begin inside of a panel, and lanes that are no whole groups") {
    const Copied chunks(48, 240, 16, true);
    CHECK(chunks.wrong == 0);
    CHECK(chunks.transposed());
    const Copied four(48, 96, 4);
    CHECK(four.wrong == 0);
    CHECK(!four.transposed());
}

}  // namespace cryolite::test
