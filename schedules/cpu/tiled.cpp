// Loops for any kernel: sums are computed in tiles of accumulators that stay in registers, what is read often is
// computed once, and what each index of the outermost dimension needs for itself is computed there.

#include <algorithm>
#include <map>
#include <set>

#include "schedules/contraction.h"
#include "schedules/cpu/idioms.h"
#include "schedules/cpu/loops.h"
#include "schedules/regions.h"

namespace cryolite::cpu {

namespace {

using Extent = std::map<std::string, Extents>;

bool is_pure_variable(const Func &f, const Expr &index, size_t d) {
    const auto *v = index.as<Internal::Variable>();
    return v && v->name == f.args()[d].name();
}

/// Whether f is a sum, or a maximum, and so on, whose result has a place for each of its indices: f(x, ..) += ...
bool is_reduction(const Func &f) {
    if (f.num_update_definitions() != 1 || f.outputs() != 1 || f.rvars().empty() || f.dimensions() == 0) return false;
    return at_own_indices(f.function(), f.function().update(0));
}

class Tiling {
public:
    Tiling(Group &g, const Machine &m) : g(g), m(m), funcs(g.funcs()) {}

    void apply() {
        const auto whole = needed(g, g.extents);
        if (!whole) return plain();
        extents = *whole;
        count_reads();
        heavy = heaviest();
        for (const Func &f : funcs) out_is_tiled |= f.name() == heavy && fits_tile_of_out(f);
        if (!out_is_tiled) place();
        tile = tuned_tile_of_sum();
        for (Func &f : funcs)
            if (stored.count(f.name())) schedule(f);
        if (!out_is_tiled) store();
    }

private:
    Group &g;
    const Machine &m;
    std::vector<Func> funcs;
    Extent extents;                       ///< of what is computed at a time: of a Func in `inside`, its part
    std::map<std::string, double> reads;  ///< how often elements of a Func are computed if it is inlined
    std::set<std::string> stored;         ///< Funcs that are computed once
    std::map<std::string, std::set<std::string>> readers;  ///< stored Funcs, or outputs, that read a Func
    std::set<std::string> inside;                          ///< computed within the outermost loop of `out`
    std::string heavy;                                     ///< the sum with the most terms
    Tile tile{};                                           ///< its tile
    bool out_is_tiled = false;                             ///< `out` reads that sum tile by tile

    /// Where the extents of some Func are not known.
    void plain() {
        for (Func &f : funcs)
            if (f.has_update_definition()) f.compute_root();
        store();
    }

    double elements(const Func &f) const { return double(volume(extents.at(f.name()))); }

    /// The number of times that an update is computed.
    double times(const Func &f, int update) const {
        double n = 1;
        const std::vector<Expr> at = f.update_args(update);
        for (size_t d = 0; d < at.size(); d++)
            if (is_pure_variable(f, at[d], d)) n *= extents.at(f.name())[d];
        for (int k = 0; k < int(f.rvars(update).size()); k++) n *= reduction_extent(f, k, update);
        return n;
    }

    /// Decides which Funcs are stored, consumers first.
    void count_reads() {
        const int often = g.tunables("stored_from", 8, {2, 32, 1 << 20});
        std::vector<Func> order = funcs;
        order.insert(order.end(), g.others.begin(), g.others.end());
        order.push_back(g.out);
        for (auto f = order.rbegin(); f != order.rend(); ++f) {
            const bool output = f - order.rbegin() < std::ptrdiff_t(1 + g.others.size());
            if (!output && f->dimensions() > 0 &&
                (f->has_update_definition() || is_strided(*f) ||
                 (reads[f->name()] >= often * elements(*f) && !is_row_of_array(*f))))
                stored.insert(f->name());
            const bool here = output || stored.count(f->name());
            const std::set<std::string> who = here ? std::set{f->name()} : readers[f->name()];
            auto add = [&](const Internal::Definition &d, double n) {
                for (const Func &callee : funcs)
                    if (const auto calls = reads_of(d, callee); callee.name() != f->name() && !calls.empty()) {
                        reads[callee.name()] += n * double(calls.size());
                        readers[callee.name()].insert(who.begin(), who.end());
                    }
            };
            const Internal::Function &function = f->function();
            if (function.has_pure_definition()) add(function.definition(), here ? elements(*f) : reads[f->name()]);
            for (int u = 0; u < f->num_update_definitions(); u++) add(function.update(u), times(*f, u));
        }
    }

    /// Whether f has the elements of an array as they are stored, so that a copy has no use.
    static bool is_row_of_array(const Func &f) {
        const auto *read = f.value().as<Internal::Call>();
        return read && !read->args.empty() && is_pure_variable(f, read->args[0], 0) &&
               (read->call_type == Internal::Call::Image || read->call_type == Internal::Call::Halide);
    }

    /// The index of a read of `factor` by the stored reduction `f` at which the lanes of f run; -1: at none.
    int lanes_at(const Func &f, const Func &factor) const {
        for (const Internal::Call *read : reads_of(f, factor))
            for (size_t d = 0; d < read->args.size(); d++)
                if (const auto *v = read->args[d].as<Internal::Variable>(); v && v->name == f.args()[0].name())
                    return int(d);
        return -1;
    }

    /// Whether the lanes of a sum of at least two dimensions would read elements of f that lie apart.
    bool is_strided(const Func &f) const {
        if (f.has_update_definition()) return false;
        return std::ranges::any_of(
            funcs, [&](const Func &sum) { return is_reduction(sum) && sum.dimensions() > 1 && lanes_at(sum, f) > 0; });
    }

    /// Which Funcs are computed within the outermost loop of `out`: those of which each of its indices needs a part of
    /// its own, and which nothing outside of that loop reads.
    void place() {
        if (g.extents.size() < 2 || g.extents.back() < 2 || !g.others.empty()) return;
        Extents last = g.extents;
        last.back() = 1;
        const auto part = needed(g, last);
        if (!part) return;
        for (auto f = funcs.rbegin(); f != funcs.rend(); ++f) {
            if (!stored.count(f->name())) continue;
            // Its tiles would have one row.
            const bool flat = is_reduction(*f) && f->dimensions() == 2 && extents.at(f->name())[1] > 1;
            const bool own = !flat && double(volume(part->at(f->name()))) * g.extents.back() <= elements(*f) * 1.01;
            const bool within = std::ranges::all_of(
                readers[f->name()], [&](const std::string &r) { return r == g.out.name() || inside.count(r); });
            if (own && within) inside.insert(f->name());
        }
        for (const std::string &f : inside) extents[f] = part->at(f);
    }

    /// Computes f within the loop of `out` that it belongs to, or before it. Returns whether it is before.
    bool compute(Func f, const std::string &like) {
        if (!inside.count(like)) return f.compute_root(), true;
        return f.compute_at(g.out, g.out.args().back()), false;
    }

    /// A stored Func. Its lanes run along the same index as those of a sum that reads it.
    void schedule(Func &f) {
        if (is_reduction(f)) return sum(f);
        const Extents &e = extents.at(f.name());
        const bool root = compute(f, f.name());
        int turned = 0;  // the index that the lanes of a sum run along
        for (const Func &reader : funcs)
            if (is_reduction(reader) && !f.has_update_definition()) turned = std::max(turned, lanes_at(reader, f));
        const Var first = f.args()[size_t(turned)];
        if (turned > 0) f.reorder_storage(first, f.args()[0]).reorder(first, f.args()[0]);
        if (const int lanes = lanes_within(e[size_t(turned)], m); lanes > 1)
            f.vectorize(first, lanes, TailStrategy::GuardWithIf);
        if (root && f.args().size() > 1 && f.args().back().name() != first.name())
            in_tasks(f, f.args().back(), e.back(), elements(f) * 4);
        for (int u = 0; u < f.num_update_definitions(); u++) update(f, u, e, root);
    }

    /// Runs the loop over `last`, of `items` iterations, in parallel, several to a task.
    void in_tasks(Halide::Stage s, const Var &last, int items, double work) {
        // What is computed inside a loop of an update has to find that loop whole.
        if (!inside.empty() && g.out.has_update_definition()) return (void)s.parallel(last);
        const int of_task = items_per_task(items, 1, int64_t(work / items));
        Var task("task");
        if (items > 1) s.split(last, task, last, of_task, TailStrategy::GuardWithIf).parallel(task);
    }

    /// Lanes along the first index of an update, in parallel over the last one.
    void update(Func &f, int u, const Extents &e, bool root) {
        const std::vector<Expr> at = f.update_args(u);
        Halide::Stage s = f.update(u);
        const bool parallel = root && at.size() > 1 && is_pure_variable(f, at.back(), at.size() - 1);
        const std::vector<RVar> rvars = f.rvars(u);
        std::vector<VarOrRVar> order;
        if (is_pure_variable(f, at[0], 0)) {
            order.push_back(f.args()[0]);
            for (const RVar &r : rvars) order.push_back(r);
            s.reorder(order);
            if (const int lanes = lanes_within(e[0], m); lanes > 1)
                s.vectorize(f.args()[0], lanes, TailStrategy::GuardWithIf);
            if (parallel) in_tasks(s, f.args().back(), e.back(), times(f, u) * 4);
            return;
        }
        if (parallel) in_tasks(s, f.args().back(), e.back(), times(f, u) * 4);
        if (rvars.empty()) return;
        const int lanes = lanes_within(reduction_extent(f, 0, u), m);
        if (lanes > 1 && Internal::can_parallelize_rvar(rvars[0].name(), f.name(), f.function().update(u)))
            s.vectorize(rvars[0], lanes, TailStrategy::GuardWithIf);
    }

    /// A tile of accumulators in registers for each tile of what reads the sum: `out`, or a copy of the sum.
    void sum(Func &f) {
        if (f.dimensions() == 1 && is_along_row(f)) return of_row(f);
        const Extents e = extents.at(f.name());
        const int columns = e[0], rows = e.size() > 1 ? e[1] : 1;
        const bool to_out = out_is_tiled && f.name() == heavy;
        const Tile t = f.name() == heavy ? tile : register_tile(columns, 0, rows, m);
        Func into = to_out ? g.out : f.in();
        const bool root = to_out || compute(into, f.name());
        std::vector<Var> v = into.args();
        Var ct("ct"), rt("rt");
        into.split(v[0], ct, v[0], t.columns, TailStrategy::ShiftInwards);
        std::vector<VarOrRVar> order = {v[0]};
        Var level = ct;
        if (v.size() > 1) {
            into.split(v[1], rt, v[1], t.rows, TailStrategy::ShiftInwards);
            order.push_back(v[1]), order.push_back(rt);
            level = rt;
        }
        order.push_back(ct);
        for (size_t d = 2; d < v.size(); d++) order.push_back(v[d]);
        into.reorder(order);
        if (v.size() > 1) into.unroll(v[1]);
        f.compute_at(into, level);
        if (root) into.parallel(v.size() > 2 ? v.back() : ct);
        across_lanes(into, v[0], t.lanes);
        sum_in_registers(f, t.lanes);
    }

    /// Whether f(r) adds elements that lie side by side.
    bool is_along_row(const Func &f) const {
        if (!adds_along_rows(f)) return false;
        bool beside = false;
        for (const Func &g : funcs)
            for (const Internal::Call *read : reads_of(f, g)) {
                const auto *v = read->args.empty() ? nullptr : read->args[0].as<Internal::Variable>();
                beside |= v && v->name == f.rvars()[0].name();
            }
        return beside;
    }

    /// A number for each row, with lanes along the row.
    void of_row(Func &f) {
        const Var last = g.out.args().back(), r = f.args()[0], task("task");
        if (inside.count(f.name())) return along_row(f, LoopLevel(g.out, last), m);
        Func sums = f.in();
        const int rows = extents.at(f.name())[0], of_task = items_per_task(rows, 1, int64_t(times(f, 0) / rows));
        sums.compute_root().split(r, task, r, of_task, TailStrategy::GuardWithIf).parallel(task);
        along_row(f, LoopLevel(sums, r), m);
    }

    /// The tile of the sum with the most terms.
    Tile tuned_tile_of_sum() {
        if (heavy.empty()) return {};
        const Extents &e = extents.at(heavy);
        const int rows = e.size() > 1 ? e[1] : 1;
        return tuned_tile(g, register_tile(e[0], 0, rows, m), e[0], 0, rows, m);
    }

    /// The name of the sum with the most terms; empty: there is no sum.
    std::string heaviest() const {
        std::string name;
        double most = 0;
        for (const Func &f : funcs)
            if (is_reduction(f) && times(f, 0) > most) most = times(f, 0), name = f.name();
        return name;
    }

    /// Whether a tile of `out` needs the same tile of f, and nothing else needs f.
    bool fits_tile_of_out(const Func &f) {
        if (g.in_place || g.out.has_update_definition() || g.out.outputs() != 1 || !g.others.empty()) return false;
        if (g.extents != extents.at(f.name()) || readers[f.name()] != std::set{g.out.name()}) return false;
        Extents of_out(g.extents.size(), 1);
        of_out[0] = g.extents[0] > 1 ? 2 : 1;
        const auto part = needed(g, of_out);
        return part && part->at(f.name()) == of_out;
    }

    /// `out` where no sum is computed in its tiles.
    void store() {
        std::vector<Func> outputs = g.others;
        outputs.push_back(g.out);
        for (Func &f : outputs) {
            const auto at = extents.find(f.name());
            if (f.dimensions() == 0 || (f.name() != g.out.name() && at == extents.end())) continue;
            const Extents &e = f.name() == g.out.name() ? g.extents : at->second;
            if (const int lanes = lanes_within(e[0], m); lanes > 1)
                f.vectorize(f.args()[0], lanes, TailStrategy::ShiftInwards);
            if (e.size() > 1) in_tasks(f, f.args().back(), e.back(), double(volume(e)) * 4);
            for (int u = 0; u < f.num_update_definitions(); u++) update(f, u, e, true);
        }
    }
};

}  // namespace

void tiled(Group &g, const Machine &m) { Tiling(g, m).apply(); }

}  // namespace cryolite::cpu
