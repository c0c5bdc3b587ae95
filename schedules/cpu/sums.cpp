// Sums over rows, and scattered ones: memory speed, a fixed order of additions.

#include <set>

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

void sum_rows(Group &g, const Machine &m) {
    const int columns = g.extent(0), lanes = lanes_within(columns, m);
    const int most = columns / lanes;
    const int wide = lanes * g.tunables("vectors", std::min(4, most), whole_numbers(1, std::min(8, most)));
    // In place, each element is updated once: lanes past the edge are masked.
    const TailStrategy edge = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
    const TailStrategy inner = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::Auto;
    std::vector<Var> v = g.out.args();
    Var tile("tile"), lane("lane");
    Func sum = g.anchor;
    Stage s = g.store();
    s.split(v[0], tile, v[0], wide, edge).parallel(v.size() > 1 ? v.back() : tile);
    across_lanes(s, v[0], lanes);
    sum.compute_at(g.out, tile);
    Var c = sum.args()[0];
    across_lanes(sum, c, lanes, inner);
    std::vector<VarOrRVar> order = {lane, c};
    for (const RVar &k : sum.rvars()) order.push_back(k);
    sum.update().split(c, c, lane, lanes, inner).reorder(order).vectorize(lane).unroll(c);
}

namespace {

/// Computes f(c) += ..(c, k) at root, rows k in `parts` equal parts (fewer, if these do not divide the rows): a part is
/// a task, channels c are across lanes. Returns the sum of a part, and its reduction variable.
std::pair<Func, RVar> sum_in_parts(Func f, int &parts, int lanes) {
    RVar k = f.rvars()[0], ko("ko");
    while (reduction_extent(f) % parts) parts--;
    Var part("part"), c = f.args()[0];
    f.update().split(k, ko, k, reduction_extent(f) / parts);
    Func p = f.update().rfactor(ko, part);
    f.compute_root().vectorize(c, lanes, TailStrategy::GuardWithIf);
    f.update().reorder(c, ko).vectorize(c, lanes, TailStrategy::GuardWithIf);
    p.compute_root().vectorize(c, lanes, TailStrategy::GuardWithIf).parallel(part);
    p.update().reorder(c, k, part).vectorize(c, lanes, TailStrategy::GuardWithIf).parallel(part);
    return {p, k};
}

}  // namespace

void batch_norm(Group &g, const Machine &m) {
    const int lanes = lanes_within(g.extent(0), m);
    for (Func &f : g.funcs()) {
        int parts = 16;
        if (f.dimensions() != 1) continue;
        if (f.has_update_definition())
            sum_in_parts(f, parts, lanes);
        else
            f.compute_root().vectorize(f.args()[0], lanes, TailStrategy::GuardWithIf);
    }
    if (g.extents.size() > 1) return pointwise(g, m);
    g.store().vectorize(g.out.args()[0], lanes, g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards);
}

void sum_normalised_rows(Group &g, const Machine &m) {
    int parts = g.tunables("parts", 16, {1, 2, 4, 8, 32, 64}, Sums::other_order);  // for any number of threads
    const int lanes = lanes_within(g.extent(0), m);
    const TailStrategy edge = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
    std::set<std::string> sums;
    for (auto &[name, f] : Internal::find_direct_calls(g.out.function()))
        if (f.has_update_definition()) sums.insert(name);
    g.store().vectorize(g.out.args()[0], lanes, edge);
    std::vector<std::pair<Func, RVar>> partial;
    for (Func &f : g.funcs()) {
        if (!sums.count(f.name())) continue;
        // In equal parts: terms read numbers of rows, and there are none past the last row.
        partial.push_back(sum_in_parts(f, parts, lanes));
    }
    // Numbers of a whole row: computed where the row is read, or at the root if several sums read them.
    for (Func &f : g.funcs()) {
        if (!is_row_number(f) || sums.count(f.name())) continue;
        std::vector<LoopLevel> readers;
        for (auto &[p, k] : partial)
            if (calls(p, f)) readers.emplace_back(p, k);
        along_row(f, readers.size() == 1 ? readers[0] : LoopLevel::root(), m);
    }
}

void squared_norm(Group &g, const Machine &m) {
    const int elements_of_task =
        g.tunables("elements_of_task", 32 << 10, {8 << 10, 16 << 10, 64 << 10, 128 << 10}, Sums::other_order);
    Func norm = g.anchor;
    RVar i = norm.rvars()[0], io("io");
    Var part("part");
    if (reduction_extent(norm) <= elements_of_task) return along_row(norm, LoopLevel::root(), m);
    norm.update().split(i, io, i, elements_of_task, TailStrategy::GuardWithIf);
    Func p = norm.update().rfactor(io, part);
    p.compute_root().parallel(part);
    RVar lane("lane");
    Var part_lane("part_lane");
    p.update().split(i, i, lane, 4 * m.vector, TailStrategy::GuardWithIf);
    Func q = p.update().rfactor(lane, part_lane);
    q.compute_at(p, part).vectorize(part_lane);
    q.update().vectorize(part_lane);
    p.update().atomic().vectorize(lane).parallel(part);
    if (norm.name() != g.out.name()) norm.compute_root();
}

void scatter(Group &g, const Machine &m) {
    std::vector<Expr> at = g.out.update_args(0);
    std::vector<Var> v = g.out.args();
    if (!g.in_place) pointwise(g, m);  // the zeros it starts from
    for (size_t d = 0; d < at.size(); d++) {
        if (!at[d].as<Internal::Variable>()) continue;
        const int lanes = lanes_within(g.extent(int(d)), m);
        Var c = v[d], task("task");
        g.out.update()
            .split(c, task, c, lanes, TailStrategy::GuardWithIf)
            .reorder(c, g.out.rvars()[0], task)
            .vectorize(c)
            .parallel(task);
        return;
    }
}

}  // namespace cryolite::cpu
