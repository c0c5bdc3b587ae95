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

std::optional<NamedLoops> written_loops(const Group &g, const Layer *anchor, const Step &step) {
    const NamedLoops plain{"plain loops", plain_loops};
    if (g.form == Form::norm && g.func("partial").defined()) return NamedLoops{"ghost_norm", cpu::ghost_norm};
    if (g.form == Form::norm) return g.anchor.defined() ? NamedLoops{"squared_norm", cpu::squared_norm} : plain;
    if (!anchor) return NamedLoops{"pointwise", cpu::pointwise};
    auto own = step.loops_of.find({std::type_index(typeid(*anchor)), g.form});
    if (own != step.loops_of.end()) return NamedLoops{anchor->kind(), own->second};
    if (const Entry *e = find(g, anchor->kind())) return NamedLoops{e->name, e->loops};
    if (g.in_place) return plain;  // an autoscheduler might compute an element twice
    return std::nullopt;
}

void share_numbers(Group &g) {
    for (Halide::Func &f : g.funcs())
        if (f.dimensions() == 0) f.compute_root();
}

}  // namespace cryolite
