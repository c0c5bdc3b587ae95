// Sums of products in layers without loops of their own, f(i, j, ...) += a(i, k, ..) * b(k, j, ..), in tiles of
// accumulators kept in registers. Outer dimensions (heads, examples) are loops around the tiles.

#include <algorithm>

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"
#include "schedules/contraction.h"

namespace cryolite::cpu {

namespace {

/// Where lanes run along an outer dimension of a factor, each task transposes its part of the factor.
void turn_factors(Group &g, const LoopLevel &level, int lanes) {
    const Func f = g.anchor;
    const std::string &across = f.args()[0].name();
    for (Func &factor : g.funcs()) {
        if (factor.has_update_definition() || factor.dimensions() < 2) continue;
        for (const Internal::Call *read : reads_of(f, factor)) {
            const auto at = std::ranges::find_if(read->args, [&](const Expr &e) {
                const auto *v = e.as<Internal::Variable>();
                return v && v->name == across;
            });
            if (at == read->args.end() || at == read->args.begin()) continue;
            const Var first = factor.args()[0], turned = factor.args()[size_t(at - read->args.begin())];
            factor.compute_at(level).reorder_storage(turned, first).reorder(turned, first);
            factor.vectorize(turned, lanes, TailStrategy::GuardWithIf);
            break;
        }
    }
}

}  // namespace

void contraction(Group &g, const Machine &m) {
    const int columns = g.extent(0), rows = g.extents.size() > 1 ? g.extent(1) : 1;
    const Tile t = tuned_tile(g, register_tile(columns, 0, rows, m), columns, 0, rows, m);
    Func f = g.anchor, into = shown_elsewhere(g) ? f.in().compute_root() : g.out;
    std::vector<Var> v = into.args();
    int64_t depth = 1, outer = 1;
    for (int k = 0; k < int(f.rvars().size()); k++) depth *= reduction_extent(f, k);
    for (size_t d = 2; d < g.extents.size(); d++) outer *= g.extents[d];
    Var ct("ct"), rt("rt"), rb("rb"), task("task");
    const int row_tiles = ceil_div(rows, t.rows), column_tiles = ceil_div(columns, t.columns);
    const int block = g.tunables(
        "tiles_of_task",
        items_per_task(row_tiles, int(std::min<int64_t>(column_tiles * outer, 1 << 20)), int64_t(t.work()) * depth),
        doublings(row_tiles));
    into.split(v[0], ct, v[0], t.columns, TailStrategy::ShiftInwards)
        .split(v[1], rt, v[1], t.rows, TailStrategy::ShiftInwards)
        .split(rt, rb, rt, block, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {v[0], v[1], rt, rb, ct};
    for (size_t d = 2; d < v.size(); d++) order.push_back(v[d]);
    into.reorder(order).fuse(rb, ct, task);
    for (size_t d = 2; d < v.size(); d++) {
        const Var inner = task;
        task = Var("task" + std::to_string(d));
        into.fuse(inner, v[d], task);
    }
    into.parallel(task).unroll(v[1]);
    across_lanes(into, v[0], t.lanes);
    f.compute_at(into, rt);
    sum_in_registers(f, t.lanes);
    turn_factors(g, LoopLevel(into, task), t.lanes);
    if (into.name() == g.out.name()) return;
    g.store().vectorize(g.out.args()[0], lanes_within(g.extent(0), m), TailStrategy::GuardWithIf);
    if (g.extents.size() > 1) g.store().parallel(g.out.args().back());
}

}  // namespace cryolite::cpu
