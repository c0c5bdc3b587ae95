#include "schedules/cpu/table.h"

#include "schedules/cpu/fallback.h"
#include "schedules/cpu/loops.h"

namespace cryolite {

namespace {

struct Entry {
    const char *layer;
    const char *name;
    LoopSchedule loops;
};

// One line for each layer that owns a loop nest.
const Entry table[] = {
    {"Linear", "product", cpu::product},
    {"TiedHead", "product", cpu::product},
};

}  // namespace

std::string apply_loops(Group &g, Halide::Pipeline &pipeline, const Layer *anchor, const Step &step,
                        const Machine &m) {
    // Numbers that the whole kernel shares are computed once.
    for (Halide::Func &f : g.funcs())
        if (f.dimensions() == 0) f.compute_root();
    if (anchor) {
        auto own = step.loops_of.find(&typeid(*anchor));
        if (own != step.loops_of.end()) return own->second(g, m), anchor->kind();
        if (g.form == Form::d_parameter && g.anchor.dimensions() == 1 && g.anchor.num_update_definitions() == 1)
            return cpu::sum_rows(g, m), "sum_rows";
        for (const Entry &e : table)
            if (e.layer == anchor->kind()) return e.loops(g, m), e.name;
    }
    return fallback(g, pipeline, m);
}

}  // namespace cryolite
