#include "schedules/cpu/few_rows.h"

#include "schedules/cpu/broadcast_pairs.h"
#include "schedules/cpu/pairs.h"
#include "schedules/cpu/prefetch.h"

namespace cryolite::cpu {

namespace {

/// The tile of dX in which every element is a vector of partial sums, and the columns that one task computes.
constexpr int tile_columns = 6, tile_rows = 4, task_columns = 48;

/// Whether rows are too few to pay for the transposition of W, which is read as it is stored instead.
bool few_rows(const Group &g, const Machine &m) {
    return m.registers >= 32 && g.panel && g.extent(0) >= task_columns && g.extent(1) <= 128;
}

/// Whether W can be read along its panels.
bool along_panels(const Group &g, const Machine &m) {
    constexpr int longest = 4608;
    const bool whole_panels = g.panel % m.vector == 0 && terms(g) % g.panel == 0;
    const bool as_stored = !in_pairs(g) || (m.dot_products && stored_in_pairs(g));
    return as_stored && whole_panels && terms(g) <= longest && g.extent(1) >= tile_rows;
}

/// dX of few rows, by inner products: an element is the sum of the lanes of a vector, of which lane l adds the terms l,
/// l + lanes, ... Neither factor is rearranged, so W is loaded during the multiply-adds, not before them.
void inner_products(Group &g, const Machine &m) {
    Func dx = g.anchor, out = g.out;
    Var i = out.args()[0], r = out.args()[1], ib("ib"), rt("rt"), it("it"), x = dx.args()[0], y = dx.args()[1], q("q");
    RVar k = dx.rvars().back(), panel("panel"), part("part"), lane("lane");
    const int together = in_pairs(g) ? 2 : 1;
    if (in_pairs(g)) pack_rows(g, m);
    out.split(i, ib, i, task_columns, TailStrategy::ShiftInwards)
        .split(r, rt, r, tile_rows, TailStrategy::ShiftInwards)
        .reorder(i, r, rt, ib)
        .parallel(ib)
        .unroll(r);
    across_lanes(out, i, m.vector);
    dx.compute_at(out, rt).vectorize(x, m.vector).unroll(y);
    dx.update().split(k, panel, k, g.panel / together).split(k, part, lane, m.vector / together);
    Func sums = dx.update().rfactor(lane, q);
    dx.update().split(x, it, x, tile_columns).reorder({lane, x, y, it}).unroll(x).unroll(y).atomic().vectorize(lane);
    Var u = sums.args()[0], v = sums.args()[1];
    sums.compute_at(dx, it).reorder_storage(q, u, v).vectorize(q).unroll(u).unroll(v);
    if (in_pairs(g)) return accumulate_pairs_by_lane(sums, m);
    sums.update().reorder({q, u, v, part, panel}).vectorize(q).unroll(u).unroll(v).unroll(part);
}

/// Whether the rows fill whole vectors, and an element of W as stored, or a pair, can be broadcast to their lanes.
bool rows_fill_lanes(const Group &g, const Machine &m) {
    const bool as_stored =
        in_pairs(g) ? m.dot_products && stored_in_pairs(g) && g.panel % 2 == 0 : g.func("dy").defined();
    return as_stored && g.prologue.empty() && g.extent(1) % m.vector == 0;
}

/// Transposes dY, square by square in registers, so that rows are innermost.
void turn_rows(Group &g, const Machine &m) {
    Func dy = g.func("dy"), by_row = dy.in();
    Var o = by_row.args()[0], n = by_row.args()[1], ob("ob"), nb("nb");
    by_row.compute_root()
        .reorder_storage(n, o)
        .split(o, ob, o, m.vector, TailStrategy::ShiftInwards)
        .split(n, nb, n, m.vector)
        .reorder(n, o, nb, ob)
        .vectorize(n)
        .unroll(o)
        .parallel(ob);
    dy.compute_at(by_row, nb).vectorize(dy.args()[0], m.vector).unroll(dy.args()[1]);
}

/// dX of few rows, with rows across lanes: an element of W, or a pair, is broadcast to all lanes, so W is read as it is
/// stored. A task goes through the panels of W, prefetches its part of the next one, and keeps its sums in the cache.
void rows_across_lanes(Group &g, const Machine &m) {
    const int vectors = g.extent(1) / m.vector;
    int high = 4;
    while (vectors % high) high--;
    const int wide = high > (in_pairs(g) ? 2 : 1) ? 3 : 6;  // wider tiles would read W at more places at once
    Func dx = g.anchor, out = g.out;
    Var i = out.args()[0], r = out.args()[1], ib("ib"), x = dx.args()[0], y = dx.args()[1], xt("xt"), yt("yt"),
        lane("lane");
    RVar k = dx.rvars().back(), ko("ko");
    out.split(i, ib, i, task_columns, TailStrategy::ShiftInwards).reorder(i, r, ib).parallel(ib);
    across_lanes(out, i, m.vector);
    dx.compute_at(out, ib).reorder_storage(y, x).reorder(y, x).vectorize(y, m.vector);
    Stage sums = dx.update();
    sums.split(k, ko, k, in_pairs(g) ? g.panel / 2 : g.panel, TailStrategy::GuardWithIf)
        .split(y, yt, y, high * m.vector)
        .split(y, y, lane, m.vector)
        .split(x, xt, x, wide)
        .reorder({lane, y, x, k, xt, yt, ko})
        .unroll(y)
        .unroll(x);
    g.passes["prefetch_next_chunk 2"] = prefetch_next_chunk;
    if (!in_pairs(g)) return sums.vectorize(lane), turn_rows(g, m);
    const RVar p = dx.rvars()[0];
    sums.reorder(p, lane);
    across_pairs(sums, lane, p, m);
    g.passes["broadcast_pairs 1"] = broadcast_pairs;  // runs before the prefetches, which look for scalars
    turn_pairs(g, m);
}

}  // namespace

bool d_input_of_few_rows(Group &g, const Machine &m) {
    enum Form { transposed, inner, rows_in_lanes };
    std::vector<int> forms = {transposed};
    const bool few = few_rows(g, m);
    if (few && along_panels(g, m)) forms.push_back(inner);
    if (few && rows_fill_lanes(g, m)) forms.push_back(rows_in_lanes);
    const int form = g.tunables("form", forms.back(), forms, Sums::other_order);
    if (form == rows_in_lanes) rows_across_lanes(g, m);
    if (form == inner) inner_products(g, m);
    return form != transposed;
}

}  // namespace cryolite::cpu
