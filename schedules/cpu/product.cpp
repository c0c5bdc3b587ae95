// Matrix products: Y = XW + b, dX = dY W', dW = X' dY, in tiles of accumulators that stay in registers.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

int panel_width(int out, const Machine &m) {
    for (int vectors : {3, 4, 2, 1})
        if (out % (vectors * m.vector) == 0) return vectors * m.vector;
    return out >= 64 * m.vector ? 3 * m.vector : 0;
}

namespace {

/// The loops of a tile: reductions outside, accumulators (and so all of `x` and `y`) in registers.
void accumulate(Func f, const Tile &t) {
    Var x = f.args()[0], y = f.args()[1];
    RVar k = f.rvars()[0];
    across_lanes(f, x, t.lanes);
    f.unroll(y);
    Var lane("lane");
    f.update().split(x, x, lane, t.lanes).reorder(lane, x, y, k).vectorize(lane).unroll(x).unroll(y);
}

/// Y: a task is a column tile times a block of rows; its panel of W stays in cache meanwhile.
void forward(Group &g, const Machine &m) {
    const int panel = stored_panel(g.func("W"));
    const int columns = g.extent(0), rows = g.extent(1), depth = reduction_extent(g.anchor);
    const Tile t = register_tile(columns, panel, rows, m);
    const bool ragged = panel && columns % t.columns;
    Func y = g.anchor, out = g.out;
    Var o = out.args()[0], r = out.args()[1], ot("ot"), rt("rt"), rb("rb"), task("task");
    const int block = items_per_task(ceil_div(rows, t.rows), ceil_div(columns, t.columns),
                                     int64_t(t.work()) * depth);
    out.split(o, ot, o, t.columns, ragged ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf)
        .reorder(o, r, rt, ot, rb)
        .fuse(ot, rb, task)
        .parallel(task)
        .unroll(r);
    across_lanes(out, o, t.lanes);
    y.compute_at(out, rt);
    if (ragged) y.align_bounds(y.args()[0], t.columns);
    accumulate(y, t);
}

/// dX: the forward product with W transposed, once per column tile (or once, where those are few).
void d_input(Group &g, const Machine &m) {
    const int columns = g.extent(0), rows = g.extent(1), depth = reduction_extent(g.anchor);
    const Tile t = register_tile(columns, 0, rows, m);
    Func dx = g.anchor, out = g.out, W = g.func("W");
    Var i = out.args()[0], r = out.args()[1], it("it"), rt("rt"), rb("rb"), task("task");
    Var o = W.args()[0], wi = W.args()[1];
    const int column_tiles = ceil_div(columns, t.columns);
    const bool whole = column_tiles < 16;
    const int block = items_per_task(ceil_div(rows, t.rows), column_tiles, int64_t(t.work()) * depth);
    out.split(i, it, i, t.columns, TailStrategy::ShiftInwards)
        .split(r, rt, r, t.rows)
        .split(rt, rb, rt, whole ? block : ceil_div(rows, t.rows), TailStrategy::GuardWithIf)
        .reorder(i, r, rt, rb, it)
        .fuse(rb, it, task)
        .parallel(task)
        .unroll(r);
    across_lanes(out, i, t.lanes);
    dx.compute_at(out, rt);
    accumulate(dx, t);
    W.reorder_storage(wi, o).reorder(wi, o);
    Var lane("lane"), wt("wt");
    if (whole) W.compute_root().split(wi, wt, wi, t.columns, TailStrategy::GuardWithIf).reorder(wi, o, wt);
    else W.compute_at(out, task);
    W.split(wi, wi, lane, t.lanes, TailStrategy::ShiftInwards).vectorize(lane).unroll(wi);
    if (whole) W.parallel(wt);
}

/// dW: a task is a panel of columns and a block of inputs.
void d_weight(Group &g, const Machine &m) {
    const bool panels = g.extents.size() == 3;
    const int width = g.extent(0), inputs = g.extent(1), depth = reduction_extent(g.anchor);
    const Tile t = register_tile(width, panels ? width : 0, inputs, m);
    Func dW = g.anchor;
    Stage s = g.store();
    std::vector<Var> v = g.out.args();
    Var it("it"), ib("ib"), lt("lt"), task("task");
    TailStrategy inward = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
    const int tiles = ceil_div(width, t.columns) * (panels ? g.extent(2) : 1);
    const int block = items_per_task(ceil_div(inputs, t.rows), tiles, int64_t(t.work()) * depth);
    s.split(v[0], lt, v[0], t.columns, inward)
        .split(v[1], it, v[1], t.rows, inward)
        .split(it, ib, it, block, TailStrategy::GuardWithIf);
    if (panels) s.reorder({v[0], v[1], it, ib, lt, v[2]}).fuse(lt, v[2], lt);
    else s.reorder(v[0], v[1], it, ib, lt);
    s.fuse(ib, lt, task).parallel(task).unroll(v[1]);
    across_lanes(s, v[0], t.lanes);
    dW.compute_at(g.out, it);
    accumulate(dW, t);
}

}  // namespace

void product(Group &g, const Machine &m) {
    switch (g.form) {
    case Form::forward: forward(g, m); break;
    case Form::d_input: d_input(g, m); break;
    case Form::d_parameter: d_weight(g, m); break;
    default: break;
    }
}

}  // namespace cryolite::cpu
