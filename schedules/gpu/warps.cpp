// Numbers of rows on NVIDIA GPUs: a warp takes a row. Its lanes add their partial sums by shuffles, without a barrier.
//
// All lanes take part in a shuffle, so none may stand in a branch or a loop that some lanes leave. So every lane
// finishes a sum for itself, in registers, before the loop that reads it.

#include <algorithm>

#include "schedules/gpu/idioms.h"

namespace cryolite::gpu {

namespace {

constexpr int lanes = 32;
constexpr int longest = 4096;  // longer rows are too much for one warp, and shorter ones than a warp do not fill it

bool adds_along_row(const Func &f) {
    if (f.num_update_definitions() != 1 || f.outputs() != 1) return false;
    const Internal::Definition &d = f.function().update();
    if (d.schedule().rvars().size() != 1 || !Internal::is_const_one(d.predicate())) return false;
    const int n = reduction_extent(f);
    const auto *row = d.args()[0].as<Internal::Variable>();
    return n >= lanes && n <= longest && row && row->name == f.args()[0].name();
}

/// Replaces the calls of `f` in its own update by `so_far`.
class TermAdded : public Internal::IRMutator {
public:
    TermAdded(const Func &f, const Expr &so_far) : name(f.name()), so_far(so_far) {}

private:
    using IRMutator::visit;
    const std::string name;
    const Expr so_far;
    Expr visit(const Internal::Call *c) override { return c->name == name ? so_far : IRMutator::visit(c); }
};

/// The sum of the two partial sums that are left, as one expression.
Expr sum_of_two(const Func &f) {
    const Internal::Definition &d = f.function().update();
    Expr sum = f.function().definition().values()[0];
    for (int k : {0, 1})
        sum = Internal::substitute(d.schedule().rvars()[0].var, k, TermAdded(f, sum).mutate(d.values()[0]));
    return sum;
}

/// Inlines the Funcs between `reader` and the sums into `reader`, and replaces each sum by a Func that every lane of
/// `reader` computes for itself.
void finish_for(Func reader, const Var &lane, const std::vector<Func> &sums) {
    auto direct = [&] { return Internal::find_direct_calls(reader.function()); };
    auto between = [&](const auto &named) {
        const Func f(named.second);
        return !f.has_update_definition() && std::ranges::any_of(sums, [&](const Func &g) { return calls(f, g); });
    };
    for (auto d = direct(); std::ranges::any_of(d, between); d = direct()) {
        Internal::Function &f = std::ranges::find_if(d, between)->second;
        f.lock_loop_levels();
        Internal::inline_function(reader.function(), f);
    }
    const auto read = direct();
    for (const Func &sum : sums) {
        if (!read.count(sum.name())) continue;
        Func here(sum.name() + "_here");
        here(sum.args()) = sum_of_two(sum);
        here.compute_at(reader, lane);
        reader.function().substitute_calls(sum.function(), here.function());
    }
}

/// A lane adds every 32nd term; then half of the lanes add the sums of the other half, until two sums are left.
void add_by_lanes(Func f, const LoopLevel &warp, const std::vector<Func> &sums, Placed &placed) {
    RVar k = f.rvars()[0], lane("k_lane");
    Var part_lane("part_lane");
    f.update().split(k, k, lane, lanes, TailStrategy::GuardWithIf);
    Func part = f.update().rfactor(lane, part_lane);
    part.compute_at(warp).gpu_lanes(part_lane);
    part.update().reorder(k, part_lane).gpu_lanes(part_lane);
    placed.insert(part.name());
    finish_for(part, part_lane, sums);
    for (int half = lanes / 2; half > 1; half /= 2) {
        RVar upper("upper"), lower("lower");
        Var half_lane("half_lane");
        f.update().split(lane, upper, lower, half);
        Func sum = f.update().rfactor(lower, half_lane);
        sum.compute_at(warp).gpu_lanes(half_lane);
        sum.update().reorder(upper, half_lane).gpu_lanes(half_lane).unroll(upper);
        placed.insert(sum.name());
        lane = lower;
    }
    placed.insert(f.name());
}

}  // namespace

std::vector<Func> sums_for_warps(const Func &f, const std::vector<Func> &funcs, const Machine &m) {
    if (m.device != "cuda") return {};
    std::vector<Func> sums;
    for (const Func &g : funcs)
        if (g.has_update_definition() && is_row_number(g) && calls(f, g)) sums.push_back(g);
    if (!std::ranges::all_of(sums, adds_along_row)) return {};
    // Other sums cannot read them: they exist only inside of the loops of `f`.
    for (const Func &g : funcs)
        if (g.has_update_definition() && g.name() != f.name() && std::ranges::count(sums, g.name(), &Func::name) == 0 &&
            std::ranges::any_of(sums, [&](const Func &sum) { return calls(g, sum); }))
            return {};
    return sums;
}

Var row_each_by_warps(Func f, Halide::Stage s, std::vector<Var> v, const std::vector<Func> &sums, Placed &placed,
                      int row_extent) {
    constexpr int warps = block_threads / lanes;
    Var part("part"), lane("lane"), row = v.at(1), warp("warp"), block("block");
    for (size_t d = 2; d < v.size(); d++) s.fuse(row, v[d], row);
    std::vector<VarOrRVar> order = {part, lane, warp, block};
    if (takes_fours(row_extent) && row_extent >= 4 * lanes) {
        Var four("four");
        by_fours(s, v[0], four);
        order.insert(order.begin(), four);
    }
    s.split(v[0], part, lane, lanes, TailStrategy::GuardWithIf)
        .split(row, block, warp, warps, TailStrategy::GuardWithIf);
    s.reorder(order).gpu_lanes(lane).gpu_threads(warp).gpu_blocks(block);
    for (const Func &sum : sums) add_by_lanes(sum, LoopLevel(f, warp), sums, placed);
    finish_for(f, lane, sums);
    return lane;
}

}  // namespace cryolite::gpu
