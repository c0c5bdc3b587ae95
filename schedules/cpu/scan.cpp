// Scans along a sequence: a task is some channels of one sequence, and goes through its positions in order.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

void scan(Group &g, const Machine &m) {
    const int lanes = lanes_within(g.extent(0), m), columns = std::min(4 * lanes, g.extent(0));
    std::vector<Var> v = g.out.args();
    Var block("block"), task("task");
    g.store()
        .split(v[0], block, v[0], columns, TailStrategy::GuardWithIf)
        .reorder(v[0], v[1], block, v[2])
        .fuse(block, v[2], task)
        .vectorize(v[0], lanes, TailStrategy::GuardWithIf)
        .parallel(task);
    for (Func &f : g.funcs()) {
        if (f.name() == g.out.name() || !f.has_update_definition()) continue;
        const Var i = f.args()[0];
        f.compute_at(g.out, task).vectorize(i, lanes, TailStrategy::GuardWithIf);
        for (int u = 0; u < f.num_update_definitions(); u++)
            f.update(u).reorder(i, f.rvars(u)[0]).vectorize(i, lanes, TailStrategy::GuardWithIf);
    }
}

}  // namespace cryolite::cpu
