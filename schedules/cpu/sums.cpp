// Sums over rows: memory speed, columns in registers, a fixed order of additions.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

void sum_rows(Group &g, const Machine &m) {
    const int columns = g.extent(0), lanes = lanes_within(columns, m);
    const int wide = lanes * std::min(4, columns / lanes);
    Var o = g.out.args()[0], ot("ot");
    Func sum = g.anchor;
    // In place, an edge may be touched once only: its lanes are masked.
    const TailStrategy edge = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards;
    g.store().split(o, ot, o, wide, edge).parallel(ot);
    across_lanes(g.store(), o, lanes);
    sum.compute_at(g.out, ot);
    const TailStrategy inner = g.in_place ? TailStrategy::GuardWithIf : TailStrategy::Auto;
    Var c = sum.args()[0], lane("lane");
    across_lanes(sum, c, lanes, inner);
    sum.update().split(c, c, lane, lanes, inner).reorder(lane, c, sum.rvars()[0]).vectorize(lane).unroll(c);
}

}  // namespace cryolite::cpu
