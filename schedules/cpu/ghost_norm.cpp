// Inner products of all rows with all rows: dot products over the width, in tiles of 4 x 4 accumulators.
//
// Register budget (AVX-512): 16 accumulators, 4 + 4 rows' vectors; a load feeds two multiply-adds.

#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"

namespace cryolite::cpu {

namespace {

void inner_products(Func f, const LoopLevel &level, const Machine &m) {
    constexpr int chunk = 2048, long_row = 4096;
    const int width = reduction_extent(f), lanes = lanes_within(width, m);
    const int wide = 4, high = m.registers >= 32 ? 4 : 2;
    Var n = f.args()[0], row = f.args()[1], nt("nt"), mt("mt"), lane("lane"), part("part");
    RVar k = f.rvars()[0], kc("kc"), ki("ki");
    f.compute_at(level).vectorize(n, m.vector, TailStrategy::RoundUp);
    std::vector<std::pair<RVar, Var>> kept = {{ki, lane}};
    Stage s = f.update();
    if (width > long_row) {
        s.split(k, kc, k, chunk, TailStrategy::GuardWithIf);
        kept.push_back({kc, part});
    }
    s.split(k, k, ki, lanes, TailStrategy::GuardWithIf);
    Func acc = s.rfactor(kept);
    Stage sums = f.update();
    sums.split(n, nt, n, wide, TailStrategy::RoundUp).split(row, mt, row, high, TailStrategy::RoundUp);
    if (width > long_row)
        sums.reorder({ki, n, row, nt, mt, kc});
    else
        sums.reorder({ki, n, row, nt, mt});
    sums.atomic().vectorize(ki).unroll(n).unroll(row);
    acc.compute_at(f, nt).reorder_storage(lane, n, row).vectorize(lane).unroll(n).unroll(row);
    acc.update().reorder({lane, n, row, k}).vectorize(lane).unroll(n).unroll(row);
}

/// Squared norms of rows, along the row.
void squares(Func f, const LoopLevel &level, const Machine &m) {
    Var row = f.args()[0], lane("lane");
    RVar k = f.rvars()[0], ki("ki");
    f.compute_at(level);
    f.update().split(k, k, ki, lanes_within(reduction_extent(f), m), TailStrategy::GuardWithIf);
    Func acc = f.update().rfactor(ki, lane);
    f.update().atomic().vectorize(ki);
    acc.compute_at(f, row).reorder_storage(lane, row).vectorize(lane);
    acc.update().reorder(lane, k).vectorize(lane);
}

}  // namespace

void ghost_norm(Group &g, const Machine &m) {
    Func partial = g.func("partial");
    Var b = partial.args()[0];
    stage_prologue(g, LoopLevel::root(), m);
    partial.compute_root().parallel(b);
    partial.update().parallel(b);
    g.anchor.compute_root();
    for (const char *name : {"first", "second"})
        if (Func f = g.func(name); f.has_update_definition())
            f.dimensions() == 1 ? squares(f, LoopLevel(partial, b), m) : inner_products(f, LoopLevel(partial, b), m);
}

}  // namespace cryolite::cpu
