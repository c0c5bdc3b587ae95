// Sums: of rows, of windows, of squares.

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

void sum_in_thread(Group &g, const Machine &m) {
    if (!g.anchor.has_update_definition() || g.anchor.name() == g.out.name()) return plain_loops(g, m);
    const Threads loops = element_each(work_of(g));
    Placed placed = {g.anchor.name()};
    g.anchor.compute_at(g.out, loops.thread);
    finish(g, loops.block, placed);
}

void squared_norm(Group &g, const Machine &m) {
    constexpr int lanes = 2048;  // sums at a time, read side by side
    Func norm = g.anchor;
    if (reduction_extent(norm) >= 2 * lanes) {
        RVar i = norm.rvars()[0], lane("lane");
        Var part("part");
        norm.update().split(i, i, lane, lanes, TailStrategy::GuardWithIf);
        norm.update().rfactor(lane, part);
    }
    plain_loops(g, m);
}

}  // namespace cryolite::gpu
