// Layers that normalise rows, and pointwise ones. A task is a few rows. Sums of a whole row are computed just before
// the row, which is then still in the cache.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

namespace {

/// Whether a Func makes sums, or reads a Func that does.
bool reaches_sum(const Func &f) {
    for (auto &[name, g] : Internal::find_transitive_calls(f.function()))
        if (g.has_update_definition()) return true;
    return f.has_update_definition();
}

}  // namespace

bool adds_along_rows(const Func &f) {
    for (const Internal::Definition &d : f.function().updates()) {
        if (d.schedule().rvars().size() != 1 || !Internal::is_const_one(d.predicate())) return false;
        if (!at_own_indices(f.function(), d)) return false;
        if (!Internal::prove_associativity(f.name(), d.args(), d.values()).associative()) return false;
    }
    return true;
}

void along_row(Func f, const LoopLevel &level, const Machine &m) {
    f.compute_at(level);
    for (int u = 0; u < f.num_update_definitions(); u++) {
        const int n = reduction_extent(f, 0, u);
        int lanes = 4 * m.vector;  // four vectors of sums: one addition need not wait for the one before
        while (lanes > m.vector && 2 * lanes > n) lanes /= 2;
        if (lanes > n) continue;
        RVar k = f.rvars(u)[0], lane("k_lane");
        Var part_lane("part_lane");
        f.update(u).split(k, k, lane, lanes, TailStrategy::GuardWithIf);
        Func part = f.update(u).rfactor(lane, part_lane);
        part.compute_at(level).vectorize(part_lane);
        part.update().vectorize(part_lane);
        f.update(u).atomic().vectorize(lane);
    }
}

namespace {

/// `edge`: what becomes of the elements of a row past its last whole vector.
void loops_over_rows(Group &g, const Machine &m, TailStrategy edge) {
    const int columns = g.extent(0), lanes = lanes_within(columns, m);
    Var i = g.out.args()[0], r = g.out.args()[1], task("task");
    const int rows = g.tunables("rows_of_task", items_per_task(g.extent(1), 1, 16 * columns), doublings(g.extent(1)));
    g.store().split(r, task, r, rows, TailStrategy::GuardWithIf).parallel(task).vectorize(i, lanes, edge);
    g.rows_once = edge == TailStrategy::GuardWithIf && g.others.empty();
    for (Func &f : g.funcs()) {
        if (is_row_number(f))
            along_row(f, LoopLevel(g.out, r), m);
        else if (f.has_update_definition())
            g.rows_once = false;
    }
}

}  // namespace

void rowwise(Group &g, const Machine &m) {
    loops_over_rows(g, m, g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards);
}

void pointwise(Group &g, const Machine &m) {
    const int elements_of_task = g.tunables("elements_of_task", 16 << 10, {1 << 10, 4 << 10, 64 << 10, 256 << 10});
    const int lanes = lanes_within(g.extent(0), m);
    const TailStrategy edge = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
    std::vector<Var> v = g.out.args();
    Stage s = g.store();
    Var task("task");
    if (v.size() == 1) {
        // A multiple of the lanes, so that only the last task has an edge.
        const int size = std::min(g.extent(0) / lanes * lanes, elements_of_task);
        s.split(v[0], task, v[0], size, edge).vectorize(v[0], lanes, edge).parallel(task);
        return;
    }
    int rows = g.extent(1);
    for (size_t d = 2; d < v.size(); d++) {
        s.fuse(v[1], v[d], v[1]);
        rows *= g.extent(int(d));
    }
    const int rows_of_task = std::min(rows, ceil_div(elements_of_task, g.extent(0)));
    s.vectorize(v[0], lanes, edge).split(v[1], task, v[1], rows_of_task, TailStrategy::GuardWithIf).parallel(task);
}

void reduce(Group &g, const Machine &m) {
    pointwise(g, m);
    for (Func &f : g.funcs()) {
        if (!f.has_update_definition() || f.name() == g.out.name()) continue;
        const std::vector<Var> v = f.args();
        f.compute_root();
        if (v.size() > 1) f.update().parallel(v.back());
        if (g.extent(0) >= m.vector) f.update().vectorize(v[0], m.vector, TailStrategy::GuardWithIf);
    }
}

void row_losses(Group &g, const Machine &m) {
    if (g.form != Form::forward) return loops_over_rows(g, m, TailStrategy::GuardWithIf);
    Func row = loss_of_row(g);
    Var r = row.args()[0], task("task");
    const int rows = g.tunables("rows_of_task", 8, {1, 2, 4, 16, 32, 64});
    row.compute_root().split(r, task, r, rows, TailStrategy::GuardWithIf).parallel(task);
    for (const Func &f : g.funcs())
        if (calls(row, f) && f.name() != row.name() && is_row_number(f)) along_row(f, LoopLevel(row, r), m);
    if (g.anchor.name() != g.out.name()) g.anchor.compute_root();
}

void weighted_rows(Group &g, const Machine &m) {
    Func each = g.func("loss_of_row");
    const Var r = each.args()[0], task("task");
    const int rows = g.tunables("rows_of_task", 8, {1, 2, 4, 16, 32, 64});
    each.compute_root().split(r, task, r, rows, TailStrategy::GuardWithIf).parallel(task);
    const LoopLevel row(each, r);
    for (Func &f : g.funcs()) {
        if (f.name() == each.name() || !calls(each, f) || !reaches_sum(f) || f.dimensions() == 0) continue;
        const bool of_row = f.args().back().name() == r.name();
        if (of_row && f.dimensions() <= 2 && adds_along_rows(f))
            along_row(f, row, m);
        else if (of_row && (f.dimensions() <= 2 || f.has_update_definition()))
            f.compute_at(row);
        else if (f.has_update_definition())
            f.compute_root().parallel(f.args().back());
    }
    g.func("sum_of_rows").compute_root();
    if (g.anchor.name() != g.out.name()) g.anchor.compute_root();
}

}  // namespace cryolite::cpu
