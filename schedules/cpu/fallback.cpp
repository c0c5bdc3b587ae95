// Kernels whose layer has no loop schedule, where no autoscheduler can help.

#include "schedules/cpu/fallback.h"

#include "schedules/cpu/idioms.h"

namespace cryolite::cpu {

using namespace Halide;

namespace {

/// Whether the update of f computes each element by itself.
bool updates_each_element(const Func &f) {
    return at_own_indices(f.function(), f.function().update(0)) && f.rvars(0).empty();
}

}  // namespace

void plain_loops(Group &g, const Machine &m) {
    for (Func &f : g.funcs()) {
        if (f.dimensions() == 0 || !f.has_update_definition()) continue;
        f.compute_root();
        if (f.args().size() > 1) f.parallel(f.args().back());
    }
    Stage s = g.store();
    Var inner = g.out.args()[0];
    if (g.extents.size() > 1 && g.extents.back() > 1 && !g.in_place) g.out.parallel(g.out.args().back());
    if (!g.in_place && g.extents[0] >= m.vector) s.vectorize(inner, m.vector, TailStrategy::ShiftInwards);
    if (g.in_place && updates_each_element(g.out)) {
        s.vectorize(inner, lanes_within(g.extents[0], m), TailStrategy::GuardWithIf);
        if (g.extents.size() < 2) return;
        const Var last = g.out.args().back(), task("task");
        const int rows = items_per_task(g.extents.back(), 1, 4 * g.extents[0]);
        s.split(last, task, last, rows, TailStrategy::GuardWithIf).parallel(task);
    }
}

}  // namespace cryolite::cpu
