// Sums over rows, over windows, and of squares.

#include <algorithm>
#include <map>

#include "schedules/gpu/idioms.h"
#include "schedules/gpu/loops.h"
#include "schedules/regions.h"

namespace cryolite::gpu {

void sum_in_thread(Group &g, const Machine &m) {
    // A Func that is computed before `out`, such as a sum into rows of a table, cannot read what `out` computes.
    auto reads_before = [&](const Func &f) {
        return f.has_update_definition() && f.name() != g.anchor.name() && calls(f, g.anchor);
    };
    if (!g.anchor.has_update_definition() || g.anchor.name() == g.out.name() ||
        std::ranges::any_of(g.funcs(), reads_before))
        return plain_loops(g, m);
    Placed placed = {g.anchor.name()};
    if (const auto extents = needed(g, g.extents)) add_in_parts(g.anchor, volume(extents->at(g.anchor.name())), placed);
    const Threads loops = element_each(work_of(g));
    g.anchor.compute_at(g.out, loops.thread);
    finish(g, loops.block, placed);
}

namespace {

/// Whether `f` is s(i) += g(i, m).
bool sums_rows(const Func &f) {
    if (f.dimensions() != 1 || f.num_update_definitions() != 1 || f.outputs() != 1) return false;
    const Internal::Definition &d = f.function().update();
    const auto *i = d.args()[0].as<Internal::Variable>();
    return i && i->name == f.args()[0].name() && d.schedule().rvars().size() == 1 &&
           Internal::is_const_one(d.predicate());
}

/// The numbers of whole rows that `f` reads, but not those that these are computed from.
void numbers_read(const Func &f, std::map<std::string, Func> &found) {
    for (auto &[name, called] : Internal::find_direct_calls(f.function())) {
        const Func g(called);
        if (name == f.name()) continue;
        if (is_row_number(g))
            found.emplace(name, g);
        else if (!g.has_update_definition())
            numbers_read(g, found);
    }
}

}  // namespace

void sums_of_normalised_rows(Group &g, const Machine &m) {
    std::vector<Func> sums;
    std::map<std::string, Func> numbers, of_rows;
    numbers_read(g.out, numbers);
    for (auto &[name, f] : numbers) sums.push_back(f);
    if (g.extents.size() != 1 || !g.others.empty() || sums.empty() || !std::ranges::all_of(sums, sums_rows))
        return plain_loops(g, m);
    for (const Func &sum : sums) numbers_read(sum, of_rows);
    Placed placed;
    // Numbers of a whole row: computed once for each row, with the sums that no other Func reads.
    for (auto &[name, f] : of_rows) {
        if (f.has_update_definition()) {
            at_root(f, placed);
            continue;
        }
        Func number = f;
        const Var r = number.args()[0];
        number.compute_root().gpu_blocks(r);
        placed.insert(name);
        std::map<std::string, Func> own;
        numbers_read(number, own);
        for (auto &[of, sum] : own)
            if (sum.has_update_definition() && !of_rows.count(of) && !placed.count(of))
                along_row(sum, LoopLevel(number, r), placed);
    }
    const Threads loops = element_each(work_of(g));
    for (Func sum : sums) {
        add_in_parts(sum, g.extent(0), placed);
        sum.compute_at(g.out, loops.thread);
        placed.insert(sum.name());
    }
    finish(g, loops.block, placed);
}

void squared_norm(Group &g, const Machine &) {
    constexpr int least = 4096, most_parts = 1024;  // elements of a block; parts that one block adds at the end
    Placed placed;
    Func norm = g.anchor;
    if (const int n = reduction_extent(norm); n > least) {
        RVar i = norm.rvars()[0], of_part("of_part");
        Var part("part");
        norm.update().split(i, of_part, i, std::max(least, (n + most_parts - 1) / most_parts),
                            TailStrategy::GuardWithIf);
        Func p = norm.update().rfactor(of_part, part), parts = p.in();
        parts.compute_root().gpu_blocks(part);
        along_block(p, LoopLevel(parts, part), placed);
    }
    const Var u = g.out.args()[0];
    g.out.gpu_blocks(u);
    along_block(norm, LoopLevel(g.out, u), placed);
    finish(g, u, placed);
}

// Threads share the rows n evenly: with a condition around the last ones Halide drops the bound of the index, and would
// read past the array.
void ghost_norm(Group &g, const Machine &m) {
    constexpr int warp = 32;
    Func partial = g.func("partial"), norm = g.anchor;
    if (partial.rvars().size() != 2) return plain_loops(g, m);
    int rows = reduction_extent(partial, 1);
    if (divisor(rows, 256) < std::min(rows, warp)) return plain_loops(g, m);
    Placed placed = {partial.name()};
    const Var b = partial.args()[0], u = g.out.args()[0];
    Func parts = partial.in();
    parts.compute_root().gpu_blocks(b);
    partial.compute_at(parts, b);
    RVar n = partial.rvars()[1];
    for (const int most : {256, 16}) {
        const int lanes = divisor(rows, most);
        RVar lane("lane_of_" + std::to_string(most));
        Var part_lane("part_lane");
        partial.update().split(n, n, lane, lanes, TailStrategy::GuardWithIf);
        Func part = partial.update().rfactor(lane, part_lane);
        part.compute_at(parts, b).gpu_threads(part_lane);
        part.update().gpu_threads(part_lane);
        placed.insert(part.name());
        n = lane, rows = lanes;
    }
    // A thread computes the product of two rows where it adds it.
    for (const char *name : {"first", "second"})
        if (Func f = g.func(name); f.has_update_definition()) {
            for (const Func &reader : g.funcs())
                if (Internal::find_direct_calls(reader.function()).count(f.name()))
                    f.compute_at(reader, reader.rvars()[0]);
            placed.insert(f.name());
        }
    g.out.gpu_blocks(u);
    along_block(norm, LoopLevel(g.out, u), placed);
    finish(g, u, placed);
}

}  // namespace cryolite::gpu
