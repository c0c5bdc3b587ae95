#include "schedules/table.h"

#include <algorithm>

#include "bundle/matrix_tiles.h"
#include "dsl/layers/linear.h"
#include "schedules/contraction.h"

namespace cryolite {

namespace {

const NamedLoops *find(const LoopTable &table, const Group &g, const std::string &kind) {
    bool weight = g.anchor.defined() && g.anchor.dimensions() > 1 && kind != "Positions" && kind != "Embedding";
    for (const LoopTable::Line &l : g.form == Form::d_parameter && !weight ? table.sums : table.layers)
        if (l.layer == kind) return &l.loops;
    return nullptr;
}

const LoopTable &table_of(const Machine &m) { return m.gpu() ? gpu::loop_table() : cpu::loop_table(); }

/// Whether every sum is one number for each row (or column), over one reduction variable whose order is free.
bool sums_are_of_rows(const Group &g) {
    return std::ranges::all_of(g.funcs(), [&](const Func &f) {
        if (!f.has_update_definition() || (g.in_place && f.name() == g.out.name())) return true;
        if (!is_row_number(f) || f.num_update_definitions() != 1) return false;
        const Halide::Internal::Definition &d = f.function().update(0);
        const auto *row = d.args()[0].as<Halide::Internal::Variable>();
        return row && row->name == f.args()[0].name() && d.schedule().rvars().size() == 1 &&
               Halide::Internal::is_const_one(d.predicate()) &&
               Halide::Internal::prove_associativity(f.name(), d.args(), d.values()).associative();
    });
}

}  // namespace

std::string loops_kind(const Layer &l) { return dynamic_cast<const ProductOf *>(&l) ? "Linear" : l.kind(); }

bool has_loops(const std::string &kind, const Machine &m) {
    return std::ranges::count(table_of(m).layers, kind, &LoopTable::Line::layer) > 0;
}

bool has_product_loops(const Layer &l, const Step &step) {
    const auto of_its_own = [&](const auto &loops) { return loops.first.first == typeid(l); };
    if (!step.loops_written || std::ranges::any_of(step.loops_of, of_its_own)) return false;
    const std::string kind = loops_kind(l);
    return std::ranges::any_of(table_of(step.machine).layers, [&](const LoopTable::Line &line) {
        return line.layer == kind && line.loops.name == "product";
    });
}

std::string name_of(const NamedLoops &loops, const Group &g) {
    return loops.name + (g.by_tiles ? std::string(by_tiles) : "");
}

bool may_be_automatic(const Group &g) { return !g.in_place; }

std::optional<NamedLoops> tiled_loops(const Machine &m) {
    const NamedLoops &tiled = table_of(m).tiled;
    return tiled.apply ? std::optional(tiled) : std::nullopt;
}

void plain_loops(Group &g, const Machine &m) { table_of(m).plain.apply(g, m); }

std::optional<NamedLoops> written_loops(const Group &g, const Layer *anchor, Nature nature, const Step &step) {
    const LoopTable &table = table_of(step.machine);
    if (!step.loops_written) return may_be_automatic(g) ? std::nullopt : std::optional(table.plain);
    if (g.form == Form::norm && g.func("partial").defined()) return table.ghost_norm;
    if (g.form == Form::norm) return g.anchor.defined() ? table.squared_norm : table.plain;
    if (!anchor) return table.pointwise;
    auto own = step.loops_of.find({std::type_index(typeid(*anchor)), g.form});
    if (own != step.loops_of.end()) return NamedLoops{anchor->kind(), own->second};
    if (const NamedLoops *loops = find(table, g, loops_kind(*anchor))) return *loops;
    if (nature != Nature::anchor && sums_are_of_rows(g)) {
        const bool of_gains = g.form == Form::d_parameter;
        if (of_gains && g.extents.size() == 1) return table.gains_of_rows;
        if (!of_gains && g.extents.size() == 2) return table.rowwise;
    }
    if (is_contraction(g)) return table.contraction;
    if (g.form == Form::d_parameter && adds_rows(g)) return table.sum_of_rows;
    return may_be_automatic(g) && table.automatic ? std::nullopt : std::optional(table.plain);
}

void share_numbers(Group &g, const Machine &m) {
    if (m.gpu()) return;  // each block computes its own
    for (Halide::Func &f : g.funcs())
        if (f.dimensions() == 0) f.compute_root();
}

}  // namespace cryolite
