// Matrix products on processors that multiply tiles of bf16. The multiplications take so little time that the loops are
// placed for what copies and caches cost: a task copies a group of panels of the factor across lanes, which then stays
// in the second cache, and of the other factor it copies the rows of a tile, which all of these panels read.

#include "schedules/cpu/tile_products.h"

#include <algorithm>

#include "schedules/cpu/matrix_tiles.h"
#include "schedules/cpu/pairs.h"
#include "schedules/cpu/transpose_words.h"

namespace cryolite::cpu {

namespace {

constexpr int tasks_of_product = 16;

/// What a task computes: so many tiles of rows, of so many panels.
struct TileTask {
    int tiles, panels;
};

/// Few tasks, as each copies its panels, and groups of panels that a second cache holds. `whole`: tasks have only whole
/// tiles of rows, and no rows past the last.
TileTask tile_task(Group &g, const Tile &t, int panels, int tiles, bool whole) {
    constexpr int64_t held = 448 << 10;  // bytes, about a quarter of a second cache
    constexpr int groups_of_panels = 8;
    const int64_t bytes = int64_t(t.columns) * terms(g) * 2;
    int together =
        int(std::clamp<int64_t>(held / bytes, 1, std::max(1, (panels + groups_of_panels / 2) / groups_of_panels)));
    while (panels % together) together--;
    std::vector<int> widths, heights;
    for (int n : whole_numbers(1, std::min(panels, 16)))
        if (panels % n == 0) widths.push_back(n);
    together = g.tunables("panels_of_task", together, widths);
    int block = items_per_task(tiles, panels / together, int64_t(t.work()) * terms(g) * together, 1, tasks_of_product);
    while (whole && tiles % block) block--;
    for (int n : doublings(tiles))
        if (!whole || tiles % n == 0) heights.push_back(n);
    return {g.tunables("tiles_of_task", block, heights), together};
}

/// Copies the factor whose pairs are side by side in its rows: the rows of a tile at `level`, where the first cache
/// holds them for all panels of a task; for all tasks at once where the copy rounds its elements.
void copy_rows(Group &g, const LoopLevel &level, const Tile &t, int panels, const Machine &m) {
    constexpr int first_cache = 40 << 10;
    Func b = g.func("b_pairs");
    Var p = b.args()[0], y = b.args()[1], k = b.args()[2];
    const int pairs = reduction_extent(g.anchor, 1);
    const bool pays = panels > 1 && t.rows * pairs * 4 <= first_cache;
    if (stored_rows_in_pairs(g) && !g.tunables("pack_x", pays, {0, 1})) return;
    b.reorder_storage(p, k, y).reorder(p, k, y).vectorize(p).vectorize(k, lanes_within(pairs, m));
    b.align_storage(k, odd_lines(pairs, pairs_of_line));
    if (stored_rows_in_pairs(g))
        b.compute_at(level);
    else
        b.compute_root().parallel(y);
}

/// Copies the factor across lanes, for a group of panels at `level`; for all tasks at once where the copy rounds its
/// elements.
void copy_panels(Group &g, const LoopLevel &level, const Tile &t, int panels) {
    Func a = g.func("a_pairs");
    Var p = a.args()[0], x = a.args()[1], k = a.args()[2];
    const TailStrategy tail = g.panel ? TailStrategy::RoundUp : TailStrategy::ShiftInwards;
    const int lanes = std::min(t.lanes, g.extent(0)), columns = panels * t.columns;
    a.reorder(p, x, k).vectorize(x, lanes, tail).unroll(p);
    if (stored_in_pairs(g))
        a.compute_at(level);
    else
        a.compute_root().parallel(k, pairs_of_line, TailStrategy::GuardWithIf);
    a.align_storage(x, odd_lines(columns, pairs_of_line));
    g.passes["transpose_words 1"] = transpose_words;
}

}  // namespace

void rows_by_tiles(Group &g, const Tile &t, const Machine &m) {
    const int columns = g.extent(0), rows = g.extent(1), panel = g.form == Form::forward ? g.panel : 0;
    const bool ragged = panel && columns % t.columns, staged = g.form == Form::forward && !g.prologue.empty();
    Func y = g.anchor, out = g.out;
    Var o = out.args()[0], r = out.args()[1], ot("ot"), og("og"), rt("rt"), rb("rb"), task("task");
    const int column_tiles = ceil_div(columns, t.columns), row_tiles = ceil_div(rows, t.rows);
    const TileTask of_task = tile_task(g, t, column_tiles, row_tiles, false);
    const int block = of_task.tiles, panels = of_task.panels;
    out.split(o, ot, o, t.columns, ragged ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(ot, og, ot, panels)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf)
        .reorder({o, r, ot, rt, og, rb});
    if (staged)
        out.parallel(rb), stage_prologue(g, LoopLevel(out, rb), m);
    else
        out.fuse(og, rb, task).parallel(task);
    across_lanes(out, o, t.lanes);
    y.compute_at(out, ot);
    if (ragged) y.bound_extent(y.args()[0], t.columns);  // as in the loops of vectors
    accumulate_processor_tiles(g, y, t.lanes, TailStrategy::Auto);
    if (g.tunables("prefetch", 1, {0, 1})) g.passes["prefetch_epilogue 1"] = prefetch_epilogue;
    copy_panels(g, staged ? LoopLevel(out, og) : LoopLevel(out, task), t, panels);
    copy_rows(g, LoopLevel(out, rt), t, panels, m);
}

void weight_by_tiles(Group &g, Func into, Halide::Stage s, TailStrategy edge, const Tile &t, const Machine &m) {
    const int inputs = g.extent(1), tiles = ceil_div(inputs, t.rows);
    const int column_tiles = g.panel ? g.extent(2) : ceil_div(g.extent(0), t.columns);
    Func dW = g.anchor;
    Var o = into.args()[0], i = into.args()[1], it("it"), ib("ib"), ot("ot"), og("og"), pi("pi"), task("task");
    const TileTask of_task = tile_task(g, t, column_tiles, tiles, edge == TailStrategy::GuardWithIf);
    const int block = of_task.tiles, panels = of_task.panels;
    s.split(o, ot, o, t.columns, edge)
        .split(i, it, i, t.rows, edge)
        .split(it, ib, it, block, TailStrategy::GuardWithIf);
    if (g.panel) {
        Var panel = into.args()[2];
        s.split(panel, og, pi, panels, edge).reorder({o, i, ot, pi, it, og, ib});
    } else {
        s.split(ot, og, ot, panels, edge).reorder({o, i, ot, it, og, ib});
    }
    s.fuse(og, ib, task).parallel(task);
    across_lanes(s, o, t.lanes);
    if (g.panel) dW.align_bounds(dW.args()[0], t.columns);
    dW.compute_at(into, ot);
    accumulate_processor_tiles(g, dW, t.lanes, TailStrategy::Auto);
    if (g.tunables("prefetch", 1, {0, 1})) g.passes["prefetch_epilogue 1"] = prefetch_epilogue;
    copy_panels(g, LoopLevel(into, task), t, panels);
    turn_terms(g, m);
}

}  // namespace cryolite::cpu
