#include "schedules/table.h"

namespace cryolite {

namespace {

const NamedLoops *find(const LoopTable &table, const Group &g, const std::string &kind) {
    bool weight = g.anchor.defined() && g.anchor.dimensions() > 1 && kind != "Positions" && kind != "Embedding";
    for (const LoopTable::Line &l : g.form == Form::d_parameter && !weight ? table.sums : table.layers)
        if (l.layer == kind) return &l.loops;
    return nullptr;
}

}  // namespace

std::optional<NamedLoops> written_loops(const Group &g, const Layer *anchor, const Step &step) {
    const LoopTable &table = step.machine.gpu() ? gpu::loop_table() : cpu::loop_table();
    if (g.form == Form::norm && g.func("partial").defined()) return table.ghost_norm;
    if (g.form == Form::norm) return g.anchor.defined() ? table.squared_norm : table.plain;
    if (!anchor) return table.pointwise;
    auto own = step.loops_of.find({std::type_index(typeid(*anchor)), g.form});
    if (own != step.loops_of.end()) return NamedLoops{anchor->kind(), own->second};
    if (const NamedLoops *loops = find(table, g, anchor->kind())) return *loops;
    if (g.in_place || !table.automatic) return table.plain;  // an autoscheduler might compute an element twice
    return std::nullopt;
}

void share_numbers(Group &g, const Machine &m) {
    if (m.gpu()) return;  // each block computes its own
    for (Halide::Func &f : g.funcs())
        if (f.dimensions() == 0) f.compute_root();
}

}  // namespace cryolite
