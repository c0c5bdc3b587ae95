#include "schedules/gpu/idioms.h"

#include <algorithm>

#include "schedules/regions.h"

namespace cryolite::gpu {

namespace {

std::vector<Var> pure_dimensions(const Stage &s) {
    std::vector<Var> v;
    for (const Internal::Dim &d : s.get_schedule().dims())
        if (d.dim_type == Internal::DimType::PureVar && d.var != Var::outermost().name()) v.emplace_back(d.var);
    return v;
}

}  // namespace

Threads element_each(Stage s, int row) {
    Threads t;
    const std::vector<Var> v = pure_dimensions(s);
    if (v.empty()) return s.gpu_single_thread(), t;
    const bool fours = takes_fours(row) && s.get_schedule().rvars().empty();
    Var four("four");
    if (fours) by_fours(s, v[0], four);
    Var element("element");
    if (v.size() == 1) {
        element = v[0];
    } else {
        s.fuse(v[0], v[1], element);
        for (size_t d = 2; d < v.size(); d++) s.fuse(element, v[d], element);
    }
    s.split(element, t.block, t.thread, block_threads, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order;
    if (fours) order.emplace_back(four);
    for (const VarOrRVar &r : reductions_of(s)) order.push_back(r);
    order.insert(order.end(), {t.thread, t.block});
    s.reorder(order).gpu_blocks(t.block).gpu_threads(t.thread);
    return t;
}

int dividing(int extent, int most) {
    while (extent % most) most /= 2;
    return most;
}

int divisor(int n, int most) {
    int d = std::clamp(most, 1, n);
    while (n % d) d--;
    return d;
}

std::vector<VarOrRVar> reductions_of(const Stage &s) {
    std::vector<VarOrRVar> list;
    for (const Internal::Dim &d : s.get_schedule().dims())
        if (d.is_rvar()) list.emplace_back(RVar(d.var.substr(d.var.rfind('.') + 1)));  // a split's has a prefix
    return list;
}

bool takes_fours(int row) { return row > 0 && row % 4 == 0; }

void by_fours(Stage s, const Var &v, const Var &four) { s.split(v, v, four, 4, TailStrategy::RoundUp).vectorize(four); }

Stage work_of(Group &g) {
    if (g.in_place) element_each(g.out);
    return g.store();
}

namespace {

/// Whether each update is of the element that it is called for.
bool updates_elements(const Func &f) {
    return std::ranges::all_of(f.function().updates(),
                               [&](const Internal::Definition &d) { return at_own_indices(f.function(), d); });
}

}  // namespace

void at_root(Func f, Placed &placed) {
    placed.insert(f.name());
    if (f.dimensions() > 0 && f.has_update_definition() && updates_elements(f)) {
        Func whole = f.in();
        f.compute_at(whole.compute_root(), element_each(whole).thread);
        return;
    }
    f.compute_root();
    element_each(f);
    for (int u = 0; u < f.num_update_definitions(); u++) element_each(f.update(u));
}

namespace {

/// Adds the terms of update `u` by so many threads of the block at `level`, their sums by fewer threads, and so on.
void by_lanes(Func f, int u, std::initializer_list<int> threads, const LoopLevel &level, Placed &placed) {
    RVar k = f.rvars(u)[0];
    for (const int most : threads) {
        int lanes = most;
        while (lanes > reduction_extent(f, 0, u)) lanes /= 2;
        RVar lane("lane_of_" + std::to_string(most));
        Var part_lane("part_lane");
        f.update(u).split(k, k, lane, lanes, TailStrategy::GuardWithIf);
        Func part = f.update(u).rfactor(lane, part_lane);
        placed.insert(part.name());
        part.compute_at(level).gpu_threads(part_lane);
        part.update().gpu_threads(part_lane);
        k = lane;
    }
}

constexpr int long_row = 4096, long_row_threads = 512;

}  // namespace

void along_row(Func f, const LoopLevel &level, Placed &placed) {
    placed.insert(f.name());
    f.compute_at(level);
    for (int u = 0; u < f.num_update_definitions(); u++) {
        const int terms = reduction_extent(f, 0, u);
        if (terms >= long_row)
            by_lanes(f, u, {long_row_threads, 16}, level, placed);
        else
            by_lanes(f, u, {64}, level, placed);
    }
}

void along_block(Func f, const LoopLevel &level, Placed &placed) {
    placed.insert(f.name());
    f.compute_at(level);
    by_lanes(f, 0, {256, 16}, level, placed);
}

Var row_each(Func f, Stage s, const std::vector<Func> &funcs, Placed &placed, const Machine &m, int row_extent) {
    const std::vector<Var> v = pure_dimensions(s);
    if (const auto sums = sums_for_warps(f, funcs, m); !sums.empty())
        return row_each_by_warps(f, s, v, sums, placed, row_extent);
    Var i = v.at(0), part("part"), thread("thread"), row("row");
    row = v.at(1);
    std::vector<VarOrRVar> order = {part, thread, row};
    if (takes_fours(row_extent) && row_extent >= 4 * block_threads) {
        Var four("four");
        by_fours(s, i, four);
        order.insert(order.begin(), four);
    }
    s.split(i, part, thread, row_extent >= long_row ? long_row_threads : block_threads, TailStrategy::GuardWithIf);
    for (size_t d = 2; d < v.size(); d++) s.fuse(row, v[d], row);
    s.reorder(order).gpu_threads(thread).gpu_blocks(row);
    for (const Func &number : funcs)
        if (is_row_number(number) && calls(f, number)) along_row(number, LoopLevel(f, row), placed);
    return row;
}

void finish(Group &g, const Var &block, Placed &placed) {
    std::optional<std::map<std::string, Extents>> extents;
    for (Func &f : g.funcs()) {
        if (!f.has_update_definition() || placed.count(f.name())) continue;
        if (!extents) extents = needed(g, g.extents);
        if (extents) add_in_parts(f, volume(extents->at(f.name())), placed);
        at_root(f, placed);
    }
    const std::vector<Func> funcs = g.funcs();
    for (Func f : funcs) {
        if (f.dimensions() != 0 || placed.count(f.name())) continue;
        if (std::ranges::none_of(funcs,
                                 [&](const Func &reader) { return placed.count(reader.name()) && calls(reader, f); }))
            f.compute_at(g.out, block);
    }
    for (Func &f : g.others) {
        element_each(f);
        for (int u = 0; u < f.num_update_definitions(); u++) element_each(f.update(u));
    }
}

}  // namespace cryolite::gpu
