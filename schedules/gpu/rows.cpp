// Layers that normalise rows, and what works on single elements.

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"

namespace cryolite::gpu {

void rowwise(Group &g, const Machine &) {
    numbers_in_block(g, row_each(g.out, g.store(), g.funcs()));
    store_others(g);
}

void cross_entropy(Group &g, const Machine &m) {
    if (g.form != Form::forward) return rowwise(g, m);
    Func nll = g.func("nll");
    Var r = nll.args()[0];
    nll.compute_root().gpu_blocks(r);
    for (const char *name : {"top", "sum", "lse"}) along_row(g.func(name), LoopLevel(nll, r));
    if (g.anchor.name() != g.out.name()) at_root(g.anchor);
    plain_loops(g, m);
}

void plain_loops(Group &g, const Machine &) {
    for (Func &f : g.funcs())
        if (f.has_update_definition() && f.function().schedule().compute_level().is_inlined()) at_root(f);
    Threads loops = element_each(g.out);
    for (int u = 0; u < g.out.num_update_definitions(); u++) loops = element_each(g.out.update(u));
    // In place, the only definition that does anything is the update.
    if (g.in_place || !g.out.has_update_definition()) numbers_in_block(g, loops.block);
    store_others(g);
}

}  // namespace cryolite::gpu
