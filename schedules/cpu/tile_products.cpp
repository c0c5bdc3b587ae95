// Matrix products on processors that multiply tiles of bf16. The multiplications take so little time that the loops are
// placed for what copies and caches cost: a task copies a group of panels of the factor across lanes, which then stays
// in the second cache, and of the other factor it copies the rows of a tile, which all of these panels read.

#include "schedules/cpu/tile_products.h"

#include <algorithm>

#include "schedules/cpu/matrix_tiles.h"
#include "schedules/cpu/pairs.h"
#include "schedules/cpu/transpose_words.h"
#include "schedules/split_products.h"

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
    // Bytes: about a quarter of a second cache, or a half of it for factors in parts, whose products take longer.
    const int64_t held = is_split(g) ? 1024 << 10 : 448 << 10;
    constexpr int groups_of_panels = 8;
    const int64_t bytes = int64_t(t.columns) * terms(g) * 2 * int64_t(parts(g, "a_pairs").size());
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

/// The loops of a copy of rows of `pairs` pairs.
void copy_pairs_of_rows(Func b, int pairs, const Machine &m) {
    Var p = b.args()[0], y = b.args()[1], k = b.args()[2];
    b.reorder_storage(p, k, y).reorder(p, k, y).vectorize(p).vectorize(k, lanes_within(pairs, m));
    b.align_storage(k, odd_lines(pairs, pairs_of_line));
}

/// Copies the factor whose pairs are side by side in its rows: the rows of a tile at `level`, where the first cache
/// holds them for all panels of a task, or where a prologue computes them; for all tasks at once where the copy rounds
/// or splits its elements.
void copy_rows(Group &g, const LoopLevel &level, const Tile &t, int panels, const Machine &m) {
    constexpr int first_cache = 40 << 10;
    const int pairs = reduction_extent(g.anchor, 1);
    const bool stored = stored_rows_in_pairs(g), staged = g.form == Form::forward && !g.prologue.empty();
    const bool pays = stored && panels > 1 && t.rows * pairs * 4 <= first_cache;
    const bool at_level = staged || ((stored || is_split(g)) && g.tunables("pack_x", pays, {0, 1}));
    if (stored && !at_level) return;
    for (Func b : parts(g, "b_pairs")) {
        copy_pairs_of_rows(b, pairs, m);
        at_level ? b.compute_at(level) : b.compute_root().parallel(b.args()[1]);
    }
}

/// Terms of a chunk, about `usual`: the last chunk is not shorter than the vectors of the copies.
int terms_of_chunk(int depth, int usual) {
    constexpr int whole = 2 * pairs_of_line;
    for (int size = usual; size > usual / 2; size -= whole)
        if (depth % size == 0) return size;
    int size = usual;
    while (size < depth && depth % size && depth % size < whole) size += whole;
    return size;
}

/// Copies the factor across lanes, for a group of panels at `level`; for all tasks at once where the copy rounds its
/// elements, or where that is asked for.
void copy_panels(Group &g, const LoopLevel &level, const Tile &t, int panels, bool at_once = false) {
    // Panels are stored to their end. Of W, whose inputs are the columns of dX, nothing is stored past the last.
    const bool padded = g.panel && g.form != Form::d_input;
    const TailStrategy tail = padded ? TailStrategy::RoundUp : TailStrategy::ShiftInwards;
    const bool once = at_once || !(is_split(g) || stored_in_pairs(g));
    const int lanes = std::min(t.lanes, g.extent(0)), columns = once ? g.extent(0) : panels * t.columns;
    if (is_split(g) && g.form == Form::d_input) {
        Func W = transpose(g.func("W"), lanes);
        once ? W.compute_root().parallel(W.args()[0], pairs_of_line, TailStrategy::GuardWithIf) : W.compute_at(level);
    }
    for (Func a : parts(g, "a_pairs")) {
        Var p = a.args()[0], x = a.args()[1], k = a.args()[2];
        a.reorder(p, x, k).vectorize(x, lanes, tail).unroll(p);
        once ? a.compute_root().parallel(k, pairs_of_line, TailStrategy::GuardWithIf) : a.compute_at(level);
        a.align_storage(x, odd_lines(columns, pairs_of_line));
    }
    g.passes["transpose_words 1"] = transpose_words;
}

/// Whether factors are in parts, and columns so few that a task has the most of them, a chunk of terms at a time: each
/// row is then copied once. Many columns are copied less often where a task has few of them, and all terms.
bool sums_in_chunks(const Group &g) {
    return is_split(g) && terms(g) >= g.extent(0) && g.prologue.empty() && !(g.form == Form::forward && g.padded);
}

/// Y or dX of such sums: a task adds up many columns, a chunk of terms at a time.
void rows_by_tiles_in_chunks(Group &g, const Tile &t, const Machine &m) {
    constexpr int64_t held = 704 << 10;  // bytes of a chunk of panels in a second cache, beside the rows and the sums
    constexpr int most_rows = 256, least_tasks = 8;
    const int columns = g.extent(0), rows = g.extent(1), row_tiles = ceil_div(rows, t.rows);
    const int column_tiles = ceil_div(columns, t.columns);
    const int chunk = terms_of_chunk(terms(g), g.tunables("chunk", 96, {64, 96, 128, 192, 256, 384, 576, 768}));
    const int fit = int(std::max<int64_t>(1, held / (int64_t(t.columns) * chunk * bytes_of_split)));
    const int groups = ceil_div(column_tiles, fit), panels = ceil_div(column_tiles, groups);
    const int blocks = std::max(ceil_div(rows, most_rows), ceil_div(least_tasks, groups));
    const int block =
        g.tunables("tiles_of_task", ceil_div(row_tiles, blocks), whole_numbers(1, std::min(row_tiles, 32)));
    Func dx = g.anchor, out = g.out;
    Var i = out.args()[0], r = out.args()[1], ig("ig"), rt("rt"), rb("rb"), task("task");
    out.split(i, ig, i, std::min(panels * t.columns, columns), TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf)
        .reorder(i, r, rt, rb, ig)
        .fuse(rb, ig, task)
        .parallel(task)
        .vectorize(i, t.lanes, TailStrategy::ShiftInwards);
    dx.compute_at(out, task);
    RVar ko("ko");
    accumulate_processor_tiles(g, dx, t.lanes, TailStrategy::Auto, chunk, ko);
    copy_panels(g, LoopLevel(dx, ko), t, panels, splits_once(columns, terms(g)));
    for (Func b : parts(g, "b_pairs")) {
        copy_pairs_of_rows(b, chunk / 2, m);
        b.compute_at(LoopLevel(dx, ko));
    }
}

}  // namespace

Tile tile_of_rows(const Group &g, const Machine &m) {
    const int columns = g.extent(0), rows = g.extent(1), panel = g.form == Form::forward ? g.panel : 0;
    Tile t = processor_tile(columns, panel, rows, m);
    if (!is_split(g)) return t;
    // Products of parts are fastest in squares of tiles, of which three tiles have none.
    constexpr int square = 32;
    if (panel && panel % square && columns % (2 * panel) == 0) t.columns = 2 * panel;
    if (!panel && columns >= 2 * square) t.columns = 2 * square;
    return t;
}

void rows_by_tiles(Group &g, const Tile &t, const Machine &m) {
    if (sums_in_chunks(g)) return rows_by_tiles_in_chunks(g, t, m);
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
    copy_rows(g, staged ? LoopLevel(out, rb) : LoopLevel(out, rt), t, panels, m);
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
