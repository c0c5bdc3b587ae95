// Layers that normalise rows, and kernels that work on single elements.

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

namespace {

void elements(Group &g, Placed &placed, int row = 0) {
    Threads loops = element_each(g.out, row);
    for (int u = 0; u < g.out.num_update_definitions(); u++) loops = element_each(g.out.update(u), row);
    finish(g, loops.block, placed);
}

}  // namespace

void rowwise(Group &g, const Machine &m) {
    Placed placed;
    const Var row = row_each(g.out, work_of(g), g.funcs(), placed, m, g.extent(0));
    finish(g, row, placed);
}

void row_losses(Group &g, const Machine &m) {
    if (g.form != Form::forward) return rowwise(g, m);
    Func row = loss_of_row(g);
    Var r = row.args()[0];
    Placed placed = {row.name()};
    row.compute_root().gpu_blocks(r);
    for (const Func &f : g.funcs())
        if (calls(row, f) && f.name() != row.name() && is_row_number(f)) along_row(f, LoopLevel(row, r), placed);
    elements(g, placed);
}

void plain_loops(Group &g, const Machine &) {
    Placed placed;
    elements(g, placed);
}

void pointwise(Group &g, const Machine &) {
    Placed placed;
    elements(g, placed, g.extents.empty() ? 0 : g.extent(0));
}

}  // namespace cryolite::gpu
