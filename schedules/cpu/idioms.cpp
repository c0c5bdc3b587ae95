#include "schedules/cpu/idioms.h"

#include <algorithm>

#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

namespace {

int widest(const Machine &m) { return m.registers >= 32 ? 5 : 3; }

/// The most rows of a tile of `v` vectors of columns: it leaves registers for a row of the panel and a broadcast.
int highest(int v, int rows, const Machine &m) { return std::min({rows, std::max(1, m.registers * 3 / 4 / v), 12}); }

/// Whether tiles of this width stay within the panels, or, without panels, within the columns.
bool fits(int wide, int columns, int panel) {
    const int stored = panel ? ceil_div(columns, panel) * panel : 0;
    return panel ? stored % wide == 0 && (wide % panel == 0 || panel % wide == 0) : wide <= columns;
}

}  // namespace

int panel_width(int out, const Machine &m) {
    for (int width : {48, 64, 32, 16})
        if (out % width == 0) return width;
    return out >= 1024 ? 3 * m.vector : 0;  // padding and masks cost little there
}

Tile register_tile(int columns, int panel, int rows, const Machine &m, bool dividing, Cache vectors) {
    int lanes = panel ? m.vector : lanes_within(columns, m);
    // Where no tile of whole vectors stays within the panels, vectors are narrower.
    const auto some_fits = [&] {
        for (int v = 1; v <= widest(m); v++)
            if (fits(v * lanes, columns, panel)) return true;
        return false;
    };
    while (lanes > 1 && !some_fits()) lanes /= 2;
    Tile best{lanes, lanes, 1};
    double least = 1e30;
    // The cost of a load, in multiply-adds. It is higher for pairs of bf16, as narrow tiles pack a factor more often.
    const double load = m.dot_products ? 0.2 : 0.1;
    // What is broadcast comes from the first cache. Of the second, tiles of few registers read more than it delivers.
    const double broadcast = vectors == Cache::second && m.registers < 32 ? load / 2 : load;
    for (int v = 1; v <= widest(m); v++) {
        const int wide = v * lanes;
        int high = highest(v, rows, m);
        while (dividing && rows % high) high--;
        if (!fits(wide, columns, panel)) continue;
        // Multiply-adds, those of elements beyond the edges too, and the loads for each of them.
        const double computed = double(ceil_div(columns, wide)) * wide * ceil_div(rows, high) * high;
        const double cost = computed * (1 + broadcast / v + load / high);
        if (cost < least) least = cost, best = {lanes, wide, high};
    }
    return best;
}

Tile whole_panel_tile(int panel, int rows, const Machine &m, bool dividing) {
    int high = highest(ceil_div(panel, m.vector), rows, m);
    while (dividing && rows % high) high--;
    return {m.vector, panel, high};
}

Tile tuned_tile(Group &g, const Tile &usual, int columns, int panel, int rows, const Machine &m, bool dividing) {
    std::vector<int> widths, heights;
    const bool whole = g.padded && g.form == Form::d_parameter;
    for (int v = 1; v <= widest(m) && !whole; v++)
        if (fits(v * usual.lanes, columns, panel)) widths.push_back(v * usual.lanes);
    if (whole) widths = {usual.columns};
    Tile t = usual;
    t.columns = g.tunables("columns", usual.columns, widths);
    const int most = highest(t.columns / t.lanes, rows, m);
    for (int high = 1; high <= most; high++)
        if (!dividing || rows % high == 0) heights.push_back(high);
    t.rows = g.tunables("rows", t.columns == usual.columns ? usual.rows : heights.back(), heights);
    return t;
}

Func transpose(Func W, int lanes) {
    Var o = W.args()[0], i = W.args()[1], lane("lane");
    W.reorder_storage(i, o).reorder(i, o);
    W.split(i, i, lane, lanes, TailStrategy::ShiftInwards).vectorize(lane);
    if (lanes < 8) W.unroll(i);  // too few to be transposed
    return W;
}

void sum_in_registers(Func f, int lanes, TailStrategy edge) {
    const std::vector<Var> v = f.args();
    const Var lane("lane");
    Halide::Stage s = f.update();
    across_lanes(f, v[0], lanes, edge);
    std::vector<VarOrRVar> loops = {lane, v[0]};
    if (v.size() > 1) loops.push_back(v[1]);
    for (const RVar &k : f.rvars()) loops.push_back(k);
    s.split(v[0], v[0], lane, lanes, edge).reorder(loops).vectorize(lane).unroll(v[0]);
    if (v.size() > 1) f.unroll(v[1]), s.unroll(v[1]);
}

void stage_prologue(Group &g, const LoopLevel &level, const Machine &m) {
    if (g.prologue.empty()) return;
    Func x = g.prologue.back();
    Var i = x.args()[0], r = x.args()[1];
    x.compute_at(level).vectorize(i, m.vector, TailStrategy::GuardWithIf);
    if (g.form != Form::forward) x.parallel(r);
    for (Func &f : g.funcs())
        if (is_row_number(f) && calls(x, f)) along_row(f, LoopLevel(x, r), m);
}

int items_per_task(int items, int others, int64_t work, int least, int tasks) {
    constexpr int64_t enough = 200 << 10;  // multiply-adds beside which the start of a task is cheap
    const int64_t some = std::max<int64_t>(least, enough / std::max<int64_t>(1, work));
    const int blocks = int(std::min<int64_t>(ceil_div(tasks, others), items / std::max<int64_t>(1, some)));
    return ceil_div(items, std::max(1, blocks));
}

}  // namespace cryolite::cpu
