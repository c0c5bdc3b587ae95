// Matrix products: Y = X W + b, dX = dY W', dW = X' dY, in tiles of accumulators kept in registers.
//
// Register budget (AVX-512, 32 registers): 24 accumulators (48 x 8 or 64 x 6), 3 or 4 for a row of the panel; the other
// operand is broadcast from memory by the multiply-add itself. With 16 registers: 12 accumulators (24 x 4 or 16 x 6).

#include <algorithm>
#include <optional>

#include "schedules/cpu/few_rows.h"
#include "schedules/cpu/loops.h"
#include "schedules/cpu/matrix_tiles.h"
#include "schedules/cpu/pairs.h"
#include "schedules/cpu/prefetch.h"
#include "schedules/cpu/tile_products.h"
#include "schedules/cpu/transpose_words.h"

namespace cryolite::cpu {

namespace {

/// The loops of a tile: reductions outside, accumulators (and so all of `x` and `y`) in registers.
void accumulate(Group &g, Func f, const Tile &t, const Machine &m, TailStrategy edge = TailStrategy::Auto) {
    if (m.matrix_tiles) return accumulate_processor_tiles(g, f, t.lanes, edge);
    if (f.rvars().size() == 2) return accumulate_pairs(f, t, edge, m);
    sum_in_registers(f, t.lanes, edge);
}

/// As above, but `size` terms at a time (loop `ko`), over an `f` that is larger than a tile. `panel`: the loop over its
/// tiles of columns.
void accumulate_chunks(Group &g, Func f, const Tile &t, int size, const RVar &ko, const Machine &m,
                       const std::optional<Var> &panel = {}) {
    if (m.matrix_tiles) return accumulate_processor_tiles(g, f, t.lanes, TailStrategy::Auto, size, ko);
    if (f.rvars().size() == 2) return accumulate_pairs_in_chunks(f, t, size, ko, m, panel);
    Var x = f.args()[0], y = f.args()[1], yt("yt"), lane("lane");
    RVar k = f.rvars()[0];
    f.vectorize(x, t.lanes);
    Stage sums = f.update();
    sums.split(k, ko, k, size, TailStrategy::GuardWithIf).split(y, yt, y, t.rows, TailStrategy::GuardWithIf);
    if (panel) sums.split(x, *panel, x, t.columns, TailStrategy::GuardWithIf);
    sums.split(x, x, lane, t.lanes);
    std::vector<VarOrRVar> loops = {lane, x, y, k, yt};
    if (panel) loops.push_back(*panel);
    loops.push_back(ko);
    sums.reorder(loops).vectorize(lane).unroll(x).unroll(y);
}

void pack_weight(Group &g, const LoopLevel &level, const Tile &t, const Machine &m) {
    if (!in_pairs(g) || pairs_are_bf16(g)) g.passes["transpose_words 1"] = transpose_words;
    if (in_pairs(g)) return pack_pairs(g, level, t, m);
    transpose(g.func("W"), t.lanes).compute_at(level);
}

/// Whether the epilogue of the sums `y` calls mathematical functions, as a GELU does.
bool curved(const Group &g, const Func &y) {
    if (calls_mathematics(g.out)) return true;
    return std::ranges::any_of(
        g.funcs(), [&](const Func &f) { return f.name() != y.name() && calls(f, y) && calls_mathematics(f); });
}

/// Places the sums `y` of a tile, and the epilogue that computes rows `r` of `out` from them: unrolled, on the
/// registers that hold the sums. With mathematical functions, and whole tiles, it goes row by row instead: unrolled, it
/// would load the functions' constants from memory for each vector.
void finish_tile(Group &g, Func y, const Var &r, const LoopLevel &level, const Tile &t, const Machine &m) {
    y.compute_at(level);
    if (m.matrix_tiles) return;  // the sums are in memory
    if (g.extent(0) % t.columns || !curved(g, y)) return void(Stage(g.out).unroll(r));
    Func sums = y.in();  // tiles are whole here: a tail would shift inwards, out of `y`
    sums.compute_at(level).unroll(sums.args()[1]);
    across_lanes(sums, sums.args()[0], t.lanes);
}

/// The tile of Y and dX, between whose rows a panel of W stays in the second cache.
Tile panel_tile(int columns, int panel, int rows, const Machine &m) {
    return register_tile(columns, panel, rows, m, false, Cache::second);
}

/// A task of `rows` rows copies the columns of W that it reads, at `level`: in a panel that is wider than the tile,
/// each row of them is apart from the next.
void pack_part_of_panel(Group &g, const LoopLevel &level, const Tile &t, int rows, const Machine &m) {
    constexpr int rows_that_pay = 96;
    Func W = g.func("W");
    if (!W.defined() || !g.tunables("pack_w", m.registers < 32 && rows >= rows_that_pay, {0, 1})) return;
    W.compute_at(level).vectorize(W.args()[0], t.lanes, TailStrategy::GuardWithIf);
}

/// Y: a task is a tile of columns of a block of rows; its panel of W stays in the cache. With a prologue, a task is all
/// columns of a block of rows.
void forward(Group &g, const Machine &m) {
    const int panel = g.panel;
    const int columns = g.extent(0), rows = g.extent(1), depth = terms(g);
    if (m.matrix_tiles) return rows_by_tiles(g, tile_of_rows(g, m), m);
    const Tile t = tuned_tile(g, panel_tile(columns, panel, rows, m), columns, panel, rows, m);
    const bool ragged = panel && columns % t.columns;
    Func y = g.anchor, out = g.out;
    Var o = out.args()[0], r = out.args()[1], ot("ot"), rt("rt"), rb("rb"), task("task");
    const bool staged = !g.prologue.empty();
    const int column_tiles = ceil_div(columns, t.columns);
    const int row_tiles = ceil_div(rows, t.rows);
    const int block = g.tunables(
        "tiles_of_task",
        items_per_task(row_tiles, staged ? 1 : column_tiles, int64_t(t.work()) * (staged ? column_tiles : 1) * depth),
        doublings(row_tiles));
    out.split(o, ot, o, t.columns, ragged ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf)
        .reorder(o, r, rt, ot, rb);
    if (staged)
        out.parallel(rb), stage_prologue(g, LoopLevel(out, rb), m);
    else
        out.fuse(ot, rb, task).parallel(task);
    across_lanes(out, o, t.lanes);
    finish_tile(g, y, r, LoopLevel(out, rt), t, m);
    // The last panel is computed with its padding, and what that gives is dropped: a bias is read past its end, where
    // memory has room. Without a known extent the accumulators would be in memory.
    if (ragged) y.bound_extent(y.args()[0], t.columns);
    accumulate(g, y, t, m);
    if (!in_pairs(g)) {
        if (panel && g.tunables("prefetch", m.registers >= 32, {0, 1})) g.passes["prefetch_ahead 2"] = prefetch_ahead;
        if (panel > t.columns && !staged)
            pack_part_of_panel(g, LoopLevel(out, task), t, std::min(block * t.rows, rows), m);
        return;
    }
    if (staged)
        pack_pairs(g, LoopLevel(out, ot), t, m, LoopLevel(out, rb));
    else
        pack_pairs(g, LoopLevel(out, task), t, m);
}

/// dX: the forward product, with W transposed by each task, which has enough rows for that to pay. Sums that are too
/// long for the cache (those of the head) go in chunks, between which a task's part of dX stays in the cache.
void d_input(Group &g, const Machine &m) {
    constexpr int rows_that_pay = 384;
    if (d_input_of_few_rows(g, m)) return;
    const int columns = g.extent(0), rows = g.extent(1), depth = terms(g);
    const Tile t =
        m.matrix_tiles ? tile_of_rows(g, m) : tuned_tile(g, panel_tile(columns, 0, rows, m), columns, 0, rows, m);
    if (is_split(g)) return rows_by_tiles(g, t, m);
    const int chunk = g.tunables("chunk", 1536, {192, 384, 576, 1152, 1536, 2304, 4608});
    if (m.matrix_tiles && depth <= chunk) return rows_by_tiles(g, t, m);
    Func dx = g.anchor, out = g.out;
    Var i = out.args()[0], r = out.args()[1], it("it"), rt("rt"), rb("rb"), task("task");
    const int row_tiles = ceil_div(rows, t.rows);
    const int block = g.tunables("tiles_of_task",
                                 items_per_task(row_tiles, ceil_div(columns, t.columns), int64_t(t.work()) * depth,
                                                ceil_div(rows_that_pay, t.rows)),
                                 doublings(row_tiles));
    out.split(i, it, i, t.columns, TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf)
        .reorder(i, r, rt, rb, it)
        .fuse(rb, it, task)
        .parallel(task);
    across_lanes(out, i, t.lanes);
    const int chunks = ceil_div(depth, chunk);
    if (chunks == 1) {
        finish_tile(g, dx, r, LoopLevel(out, rt), t, m);
        accumulate(g, dx, t, m);
        pack_weight(g, LoopLevel(out, task), t, m);
    } else {
        RVar ko("ko");
        if (!m.matrix_tiles) out.unroll(r);
        dx.compute_at(out, task);
        const int whole = in_pairs(g) ? 16 : 8;  // terms that are transposed together
        accumulate_chunks(g, dx, t, ceil_div(ceil_div(depth, chunks), whole) * whole, ko, m);
        pack_weight(g, LoopLevel(dx, ko), t, m);
    }
}

/// The most rows that dW adds up at a time, unless a line sets `chunk`.
constexpr int chunk_rows = 1536;
const std::vector<int> chunk_lengths = {128, 192, 384, 768, 1536, 3072};

/// For a tied table: computes the sums of a tile, the product and rows of the embedding, at `level`, where it is read.
void tied_panel(Group &g, const LoopLevel &level, const LoopLevel &panel, const Tile &t) {
    Func sums = g.func("in_panel"), any = g.func("any_row");
    Var o = sums.args()[0], i = sums.args()[1];
    sums.compute_at(level).unroll(i);
    across_lanes(sums, o, t.lanes);
    sums.update().reorder(i, sums.rvars()[0]);
    any.compute_at(panel);
}

/// Whether rows of so many float32 are a multiple of 2 KB apart: they share few sets of a cache.
bool share_sets(int64_t columns) { return columns * 4 % 2048 == 0; }

/// What a task of dW computes together, a chunk of rows at a time: so many tiles of inputs, and panels of columns. It
/// copies its part of X once for all panels, and dY once for each. Without `copies` it is one panel, and whether the
/// factors are copied is decided where its loops are.
struct WeightTask {
    int tiles, panels;
    bool copies;
};

/// Rows of a chunk, unless a line sets `chunk`.
constexpr int shared_chunk = 128;

/// The tasks that copy the least, of those that fit a second cache and leave work for many threads. Without copies if
/// caches hold the factors as they are. Copies of 16-bit factors are float32, so that tiles convert nothing.
WeightTask weight_task(Group &g, const Tile &t, const Machine &m) {
    constexpr int most_tasks = 16, most_panels = 8, most_blocks = 64;
    constexpr int64_t second_cache = 1 << 20, work_of_task = 12 << 20;
    const int64_t room = m.registers >= 32 ? 640 << 10 : 256 << 10;  // AVX-512 comes with larger caches
    const int panels = g.panel ? g.extent(2) : 0, inputs = g.extent(1), tiles = ceil_div(inputs, t.rows);
    const bool copied = in_pairs(g) ? !m.dot_products && !m.matrix_tiles : g.func("x0").defined();
    if (!panels || g.in_place || !copied || !g.prologue.empty()) return {tiles, 1, false};
    const int64_t rows = terms(g), outputs = int64_t(panels) * g.panel;
    const int tasks = int(std::clamp<int64_t>(rows * inputs * outputs / work_of_task, 2, most_tasks));
    const int64_t of_panel = rows * g.panel * 4;
    const int64_t held = share_sets(inputs) || share_sets(outputs) ? 128 << 10 : 256 << 10;
    const bool far = in_pairs(g) || of_panel > held || (tasks >= most_tasks / 2 && rows * inputs * 4 > second_cache);
    const int least_tiles = std::min(tiles, tasks < most_tasks ? 8 : 16);
    const std::vector<int> widths = whole_numbers(1, std::min(panels, most_panels));
    WeightTask best{least_tiles, 1, false};
    std::vector<int> heights;
    int64_t least = INT64_MAX;
    for (int blocks = std::min(tiles, most_blocks); blocks; blocks--) {
        const int high = ceil_div(tiles, blocks);
        if (heights.empty() || heights.back() != high) heights.push_back(high);
        if (!far || high < least_tiles) continue;
        for (int wide : widths) {
            const int groups = ceil_div(panels, wide), count = groups * blocks;
            const int64_t bytes = int64_t(4) * high * t.rows * (wide * g.panel + shared_chunk);
            const bool wasteful = groups * wide * 16 > panels * 17;  // the last tasks compute panels of others again
            if (count < tasks || bytes > room || wasteful) continue;
            // A copied element takes the time of a few products. Of an odd number of tasks, two threads take one alone.
            const int64_t copies = int64_t(inputs) * groups + outputs * blocks, products = inputs * outputs / 8;
            const int64_t time = (products + copies) * (count < most_tasks ? count + count % 2 : count) / count;
            if (time < least) least = time, best = {high, wide, true};
        }
    }
    best.panels = g.tunables("panels_of_task", best.panels, widths);
    best.copies |= best.panels > 1;
    if (best.copies) best.tiles = g.tunables("tiles_of_task", best.tiles, heights);
    return best;
}

/// dW of tasks that copy, in chunks that caches hold.
void weight_panels(Group &g, const Tile &t, const WeightTask &of_task, const Machine &m) {
    Func out = g.out, dW = g.anchor;
    Var o = out.args()[0], i = out.args()[1], panel = out.args()[2];
    Var it("it"), ib("ib"), po("po"), xt("xt"), task("task");
    out.split(panel, po, panel, of_task.panels, TailStrategy::ShiftInwards)
        .split(i, it, i, t.rows, TailStrategy::ShiftInwards)
        .split(it, ib, it, of_task.tiles, TailStrategy::GuardWithIf)
        .reorder({o, i, it, panel, ib, po})
        .fuse(ib, po, task)
        .parallel(task);
    across_lanes(out, o, t.lanes);
    const int rows = terms(g), chunks = ceil_div(rows, g.tunables("chunk", shared_chunk, chunk_lengths));
    RVar ko("ko");
    dW.compute_at(out, task).align_bounds(dW.args()[0], t.columns);
    accumulate_chunks(g, dW, t, ceil_div(rows, chunks), ko, m, xt);
    const int inputs = of_task.tiles * t.rows, lanes = lanes_within(std::min(g.extent(1), inputs), m);
    if (in_pairs(g)) return pack_chunks(g, LoopLevel(dW, ko), LoopLevel(dW, xt), lanes, t);
    Func x = g.func("x0"), dy = g.func("dy");
    // With an odd number of cache lines from row to row, the rows that a tile reads use all sets of a cache.
    const int of_line = 64 / x.type().bytes();
    x.compute_at(dW, ko).vectorize(x.args()[0], lanes).align_storage(x.args()[0], odd_lines(inputs, of_line));
    dy.compute_at(dW, xt).vectorize(dy.args()[0], t.lanes);
}

/// The loops of dW over a definition `s` of `into`, which stores dW or updates in place from it.
void weight_loops(Group &g, Func into, Stage s, TailStrategy edge, const Tile &t, const Machine &m) {
    constexpr int inputs_that_pay = 384, tasks = 16, copied_bytes = 128 << 10;
    const int inputs = g.extent(1), rows = terms(g);
    const bool panels = g.panel != 0;
    const int tiles = panels ? g.extent(2) : ceil_div(g.extent(0), t.columns);
    int block = items_per_task(ceil_div(inputs, t.rows), tiles, int64_t(t.work()) * rows);
    // A task copies its part of rows of X that share few sets of a cache.
    Func x = g.func("x0");
    const bool apart = x.defined() && g.prologue.empty() && !in_pairs(g) && rows <= chunk_rows && share_sets(inputs);
    if (apart) {
        const int least = std::min(ceil_div(48, t.rows), ceil_div(inputs, t.rows) * tiles / tasks);
        block = std::clamp(block, least, std::max(least, copied_bytes / (t.rows * rows * 4)));
    }
    while (edge == TailStrategy::GuardWithIf && inputs / t.rows % block) block--;
    std::vector<int> blocks;
    for (int n : whole_numbers(1, ceil_div(inputs, t.rows)))
        if ((n & (n - 1)) == 0 && (edge != TailStrategy::GuardWithIf || inputs / t.rows % n == 0)) blocks.push_back(n);
    block = g.tunables("tiles_of_task", block, blocks);
    Func dW = g.anchor, dy = g.func("dy");
    Var o = into.args()[0], i = into.args()[1], it("it"), ib("ib"), ot("ot"), task("task");
    s.split(o, ot, o, t.columns, edge)
        .split(i, it, i, t.rows, edge)
        .split(it, ib, it, block, TailStrategy::GuardWithIf);
    if (panels)
        s.reorder({o, i, it, ot, ib, into.args()[2]}).fuse(ib, into.args()[2], task);
    else
        s.reorder(o, i, it, ib, ot).fuse(ib, ot, task);
    s.parallel(task);
    if (!m.matrix_tiles) s.unroll(i);
    across_lanes(s, o, t.lanes);
    if (panels) dW.align_bounds(dW.args()[0], t.columns);
    if (g.func("in_panel").defined()) tied_panel(g, LoopLevel(into, it), LoopLevel(into, task), t);
    const int chunks = ceil_div(rows, g.tunables("chunk", chunk_rows, chunk_lengths));
    RVar ko("ko");
    if (chunks == 1) {
        dW.compute_at(into, it);
        accumulate(g, dW, t, m);
    } else {
        dW.compute_at(into, task);
        accumulate_chunks(g, dW, t, ceil_div(rows, chunks), ko, m);
    }
    if (in_pairs(g)) return pack_pairs(g, chunks == 1 ? LoopLevel(into, task) : LoopLevel(dW, ko), t, m);
    if (apart) x.compute_at(into, task).vectorize(x.args()[0], lanes_within(block * t.rows, m));
    if (!g.tunables("pack_dy", apart || block * t.rows >= inputs_that_pay, {0, 1})) return;
    if (chunks == 1)
        dy.compute_at(into, task);
    else
        dy.compute_at(dW, ko);
    dy.vectorize(dy.args()[0], t.lanes);
}

/// dW: a task is a panel of columns and a block of inputs; it copies dY where that pays. An update in place must update
/// each element once: where tiles would overlap, the gradient is stored first.
void d_weight(Group &g, Machine m) {
    // Tiles do not cross the edges of panels.
    while (g.panel % m.vector) m.vector /= 2;
    const int columns = g.extent(0), inputs = g.extent(1);
    Func in_panel = g.func("in_panel");
    // Halide does not see that a part of a panel is a whole tile where the last panel is padded.
    const auto tile = [&](bool dividing) {
        return m.matrix_tiles ? processor_tile(columns, g.panel, inputs, m, dividing)
               : g.padded     ? whole_panel_tile(g.panel, inputs, m, dividing)
                              : register_tile(columns, g.panel, inputs, m, dividing);
    };
    const Tile usual = tile(false), even = tile(true);
    // A tied table is updated tile by tile if tiles that divide it are as wide as its panels, and no lower than usual.
    const bool in_tile =
        g.in_place && g.panel &&
        (!in_panel.defined() || (columns == even.columns && even.rows == usual.rows && terms(g) <= chunk_rows));
    const Tile chosen = in_tile ? even : usual;
    const Tile t = m.matrix_tiles ? chosen : tuned_tile(g, chosen, columns, g.panel, inputs, m, in_tile);
    // An update reads and writes four arrays between two products, during which memory is idle.
    if (in_tile && !m.matrix_tiles && g.tunables("prefetch", 1, {0, 1}))
        g.passes["prefetch_next_tile 4"] = prefetch_next_tile;
    if (m.matrix_tiles && !in_panel.defined() && (!g.in_place || (columns % t.columns == 0 && inputs % t.rows == 0)))
        return weight_by_tiles(g, g.out, g.store(), g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards,
                               t, m);
    const WeightTask of_task = weight_task(g, t, m);
    if (of_task.copies) return weight_panels(g, t, of_task, m);
    if (!g.in_place) return weight_loops(g, g.out, g.out, TailStrategy::ShiftInwards, t, m);
    if (columns % t.columns == 0 && inputs % t.rows == 0 && (!in_panel.defined() || in_tile))
        return weight_loops(g, g.out, g.store(), TailStrategy::GuardWithIf, t, m);
    // A tied table: a panel's product, then the rows of its embedding, then the update, while all is in the cache.
    if (in_panel.defined()) {
        Var lane = g.out.args()[0], c = g.out.args()[1], panel = g.out.args()[2], task("panel_task");
        g.store().reorder(lane, c, panel).parallel(panel).vectorize(lane, t.lanes, TailStrategy::GuardWithIf);
        in_panel.compute_at(g.out, panel);
        g.func("any_row").compute_at(g.out, panel);
        Var o = in_panel.args()[0], i = in_panel.args()[1], ot("ot"), it("it");
        in_panel.split(o, ot, o, t.columns).split(i, it, i, t.rows, TailStrategy::ShiftInwards).reorder(o, i, ot, it);
        if (!m.matrix_tiles) in_panel.unroll(i);
        across_lanes(in_panel, o, t.lanes);
        in_panel.update().reorder(i, in_panel.rvars()[0]);
        g.anchor.align_bounds(g.anchor.args()[0], t.columns).compute_at(in_panel, ot);
        if (in_pairs(g)) pack_pairs(g, LoopLevel(g.out, panel), t, m);
        return accumulate(g, g.anchor, t, m);
    }
    Func stored = g.anchor.in().compute_root();
    // The gradient may be stored transposed, its rows as columns of the product: the tile fits either way.
    const int least = std::min(columns, inputs);
    weight_loops(g, stored, stored, TailStrategy::ShiftInwards, g.panel ? t : register_tile(least, 0, least, m), m);
    g.store().parallel(g.out.args()[1]).vectorize(g.out.args()[0], t.lanes, TailStrategy::GuardWithIf);
}

}  // namespace

void product(Group &g, const Machine &machine) {
    Machine m = machine;
    m.dot_products &= pairs_are_bf16(g);
    m.matrix_tiles &= pairs_are_bf16(g);
    if (g.form != Form::forward) stage_prologue(g, LoopLevel::root(), m);
    switch (g.form) {
    case Form::forward:
        forward(g, m);
        break;
    case Form::d_input:
        d_input(g, m);
        break;
    case Form::d_parameter:
        g.anchor.dimensions() == 1 ? sum_rows(g, m) : d_weight(g, m);
        break;
    default:
        break;
    }
}

}  // namespace cryolite::cpu
