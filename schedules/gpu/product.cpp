// Matrix products: Y = X W + b, dX = dY W', dW = X' dY. A thread computes a tile of up to 4 x 4 sums in registers, a
// block has 16 x 16 threads. The epilogue is applied to the tile before it is stored.
//
// Tiles divide the extents, so that no thread reaches past them: in place, an element is updated once.

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

int dividing(int extent) { return extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1; }

}  // namespace

void product(Group &g, const Machine &m) {
    if (g.anchor.dimensions() != 2 || g.extents.size() != 2) return sum_in_thread(g, m);
    constexpr int threads = 16;
    Placed placed = {g.anchor.name()};
    // The prologue is computed once, not for every tile.
    if (!g.prologue.empty()) {
        Func x = g.prologue.back().compute_root();
        placed.insert(x.name());
        row_each(x, x, g.funcs(), placed, m);
    }
    Stage s = work_of(g);
    Var x = g.out.args()[0], y = g.out.args()[1], xt("xt"), yt("yt"), xb("xb"), yb("yb");
    s.split(x, xt, x, dividing(g.extent(0)), TailStrategy::RoundUp)
        .split(y, yt, y, dividing(g.extent(1)), TailStrategy::RoundUp)
        .split(xt, xb, xt, threads, TailStrategy::GuardWithIf)
        .split(yt, yb, yt, threads, TailStrategy::GuardWithIf)
        .reorder({x, y, xt, yt, xb, yb})
        .unroll(x)
        .unroll(y)
        .gpu_threads(xt, yt)
        .gpu_blocks(xb, yb);
    Func sum = g.anchor;
    Var a = sum.args()[0], b = sum.args()[1];
    sum.compute_at(g.out, xt).unroll(a).unroll(b);
    sum.update().reorder({a, b, sum.rvars()[0]}).unroll(a).unroll(b);
    finish(g, xb, placed);
}

}  // namespace cryolite::gpu
