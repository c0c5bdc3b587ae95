#include "schedules/cpu/table.h"

#include "schedules/cpu/fallback.h"
#include "schedules/cpu/loops.h"

namespace cryolite {

namespace {

struct Entry {
    const char *layer, *name;
    LoopSchedule loops;
};

// One line for each layer that owns a loop nest.
const Entry layers[] = {
    {"Linear", "product", cpu::product},
    {"TiedHead", "product", cpu::product},
    {"CausalAttention", "attention", cpu::attention},
    {"LayerNorm", "rowwise", cpu::rowwise},
    {"CrossEntropy", "cross_entropy", cpu::cross_entropy},
    {"Embedding", "pointwise", cpu::pointwise},
    {"Positions", "pointwise", cpu::pointwise},
    {"Conv2D", "windows", cpu::windows},
    {"AveragePool", "windows", cpu::windows},
    {"MaxPool", "windows", cpu::windows},
};

// Gradients of parameters that are sums over rows, not products.
const Entry sums[] = {
    {"Linear", "sum_rows", cpu::sum_rows},
    {"Conv2D", "sum_rows", cpu::sum_rows},
    {"Positions", "sum_rows", cpu::sum_rows},
    {"LayerNorm", "sum_normalised_rows", cpu::sum_normalised_rows},
    {"Embedding", "scatter", cpu::scatter},
};

const Entry *find(const Group &g, const std::string &kind) {
    bool weight = g.anchor.dimensions() > 1 && kind != "Positions" && kind != "Embedding";
    if (g.form == Form::d_parameter && !weight) {
        for (const Entry &e : sums)
            if (e.layer == kind) return &e;
        return nullptr;
    }
    for (const Entry &e : layers)
        if (e.layer == kind) return &e;
    return nullptr;
}

}  // namespace

std::string apply_loops(Group &g, Halide::Pipeline &pipeline, const Layer *anchor, const Step &step,
                        const Machine &m) {
    // Numbers that the whole kernel shares are computed once.
    for (Halide::Func &f : g.funcs())
        if (f.dimensions() == 0) f.compute_root();
    if (g.form == Form::norm && g.func("partial").defined()) return cpu::ghost_norm(g, m), "ghost_norm";
    if (g.form == Form::norm && g.anchor.defined()) return cpu::squared_norm(g, m), "squared_norm";
    if (g.form == Form::norm) return plain_loops(g, m);
    if (!anchor) return cpu::pointwise(g, m), "pointwise";
    auto own = step.loops_of.find({std::type_index(typeid(*anchor)), g.form});
    if (own != step.loops_of.end()) return own->second(g, m), anchor->kind();
    if (const Entry *e = find(g, anchor->kind())) return e->loops(g, m), e->name;
    return g.in_place ? plain_loops(g, m) : autoschedule(pipeline, m);
}

}  // namespace cryolite
