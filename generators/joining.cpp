// How stages come to share a kernel: defaults, then the lines of the step schedule, each proved legal or refused.

#include "generators/joining.h"

#include <algorithm>

namespace cryolite::compiler {

void refuse(const Stage &s, const Placement &where, const std::string &why, const std::string &nearest) {
    fail("s({}){} is refused: {}; the nearest legal line is s({}){}", s.str(), where.line(), why, s.str(), nearest);
}

Joining::Joining(StepProgram &p, const StepOptions &options, const std::string &plan)
    : p(p), options(options), plan(plan) {
    for (int k : p.plans[plan]) stages.push_back(p.kernels[k].stages.at(0));
    for (int s : stages) group[s] = s, place_of[s] = int(place_of.size());
    for (int s : stages)
        for (int b : p.stages[s].writes) writer[p.base(b)] = s;
}

void Joining::defaults() {
    for (int s : stages) {
        const StageSpec &spec = p.stages[s];
        if (!options.groups) break;
        if (spec.part == Part::forward && stage_nature(p, spec) == Nature::sum) join_residual(s);
        if (spec.part == Part::d_parameter) join_sibling(s);
    }
    if (plan == "step") default_updates();
}

bool Joining::apply(const Stage &stage, const Placement &where) {
    if (where.how == Placement::root || p.blocks.takes(stage, where.target)) return true;
    if (stage.kind == Stage::gradient) return place_gradient(stage, where), true;
    if (stage.kind == Stage::next) return place_update(stage, where), true;
    bool concerned = false;
    for (int s : find(stage))
        for (int t : find(where.target)) concerned |= place(stage, where, s, t);
    return concerned;
}

void Joining::finish() {
    if (plan == "step") drop_norms();
    std::map<int, std::vector<int>> members;
    for (int s : stages) members[root(s)].push_back(s);
    std::vector<int> ids;
    for (int g : sorted(members)) ids.push_back(add_kernel(members[g]));
    p.plans[plan] = ids;
}

void Joining::join(int s, int into, const std::string &how) {
    p.stages[s].placed = how + " " + p.stages[into].name;
    group[root(s)] = root(into);
}

std::vector<int> Joining::readers(int buffer) const {
    std::vector<int> list;
    for (int s : stages)
        for (int b : stage_reads(p, p.stages[s]))
            if (p.base(b) == p.base(buffer)) { list.push_back(s); break; }
    return list;
}

/// x + f(...): the addition joins the kernel of f when nothing else in the pass reads f.
void Joining::join_residual(int s) {
    const Graph::Call &c = p.graph.calls()[p.stages[s].call];
    for (int k = int(c.inputs.size()) - 1; k >= 0; k--) {
        int b = p.seen(p.stages[s], c.inputs[k]);
        if (!writer.count(b) || stage_nature(p, p.stages[writer[b]]) != Nature::anchor) continue;
        if (readers(b).size() != 1 || p.graph.calls()[p.stages[writer[b]].call].layer->rank() != 2) continue;
        p.buffers[b].stored = false;
        p.stages[writer[b]].placed = "at " + p.stages[s].name;
        return join(s, writer[b], "with");
    }
}

/// Gradients of one call over the same rows and of the same shape share a loop nest.
void Joining::join_sibling(int s) {
    const StageSpec &spec = p.stages[s];
    if (p.graph.calls()[spec.call].layer->nature() == Nature::anchor || spec.accumulate) return;
    for (int t : stages) {
        const StageSpec &other = p.stages[t];
        if (t >= s || other.part != Part::d_parameter || other.call != spec.call) continue;
        if (other.parameter->shape() == spec.parameter->shape() && !other.accumulate)
            return join(s, t, "with");
    }
}

/// The stages of this plan that a line names.
std::vector<int> Joining::find(const Stage &stage) const {
    std::vector<int> list;
    auto &calls = p.graph.calls();
    for (int s : stages) {
        const StageSpec &spec = p.stages[s];
        if (stage.kind == Stage::value && spec.part == Part::forward && calls[spec.call].layer == stage.layer)
            list.push_back(s);
        if (stage.kind == Stage::adjoint && spec.dy >= 0 && calls[spec.call].layer == stage.layer) {
            auto it = writer.find(spec.dy);
            if (it != writer.end() && std::find(list.begin(), list.end(), it->second) == list.end())
                list.push_back(it->second);
        }
    }
    return list;
}

/// False where neither reads the other: another call of the same layers.
bool Joining::place(const Stage &stage, const Placement &where, int s, int t) {
    if (s == t) refuse(stage, where, "it is the same stage", ".compute_root()");
    bool before = feeds(s, t);
    if (!before && !feeds(t, s)) return false;
    // Built again, it may have readers in the backward pass: then it is stored, at root.
    if (where.how == Placement::at && p.stages[s].again)
        for (int r : readers(p.stages[s].writes[0]))
            if (root(r) != root(t)) return true;
    // What each has been joined with comes along.
    int first = before ? s : t, later = before ? t : s;
    if (root(s) != root(t) && holds(first, Nature::anchor) >= 0) {
        if (holds(later, Nature::anchor) >= 0)
            refuse(stage, where, "both own a loop nest, as every layer does whose nature() is not pointwise or rowwise", ".compute_root()");
        if (int norm = holds(later, Nature::rowwise); norm >= 0)
            refuse(stage, where, "'" + p.stages[norm].name + "' needs whole rows of a result that is made in tiles",
                   ".compute_root()");
    }
    if (where.how == Placement::with && root(s) != root(t) && holds(first, Nature::anchor) < 0)
        if (int anchor = holds(later, Nature::anchor); anchor >= 0)
            refuse(stage, where, "the loops of '" + p.stages[anchor].name + "' read it many times, and cannot store it",
                   ".compute_root()");
    if (where.how == Placement::at) check_unread(stage, where, s, t);
    join(s, t, where.how == Placement::at ? "at" : "with");
    return true;
}

/// A stage of this nature in the kernel that `s` has been placed in; -1: none.
int Joining::holds(int s, Nature n) {
    for (int t : stages)
        if (root(t) == root(s) && stage_nature(p, p.stages[t]) == n) return t;
    return -1;
}

bool Joining::feeds(int s, int t) const {
    for (int b : stage_reads(p, p.stages[t]))
        for (int w : p.stages[s].writes)
            if (p.base(b) == p.base(w)) return true;
    return false;
}

/// A stage that is never stored may have no reader outside its kernel, but those that can rebuild it.
void Joining::check_unread(const Stage &stage, const Placement &where, int s, int t) {
    // A product reads what comes before it many times, and cannot store it.
    const int first = feeds(s, t) ? s : t, later = first == s ? t : s;
    const bool storable = holds(first, Nature::anchor) >= 0 || holds(later, Nature::anchor) < 0;
    const std::string nearest = storable ? Placement{Placement::with, where.target}.line() : ".compute_root()";
    for (int b : p.stages[s].writes) {
        if (b == p.output || b == p.loss) refuse(stage, where, "it is a result of the model", nearest);
        for (int r : readers(b))
            if (root(r) != root(t) && root(r) != root(s)) refuse(stage, where, "'" + p.stages[r].name + "' reads it too", nearest);
        p.buffers[b].stored = false;
    }
}

/// Where a fused update made at `place` would like to run: when the passes back through later layers have read so much
/// that its weight, which all cores have just read, is in none of their caches. A core that writes what lies in the cache
/// of another waits for each line, and longest where they share none (docs/decisions.md 47). A model that fits into
/// caches keeps its order.
double Joining::out_of_caches(double place) const {
    constexpr int64_t far = 64 << 20;
    if (weights_read.empty() || weights_read.back().second <= far) return place;
    const auto later = std::ranges::upper_bound(weights_read, place, {}, &std::pair<double, int64_t>::first);
    const int64_t before = later == weights_read.begin() ? 0 : std::prev(later)->second;
    const auto enough = std::ranges::upper_bound(later, weights_read.end(), before + far, {}, &std::pair<double, int64_t>::second);
    return std::max(place, (enough == weights_read.end() ? weights_read.back() : *enough).first + 0.5);
}

/// Bytes of the weights that gradients of inputs read, up to and with the stage at each place.
void Joining::count_weights_read() {
    int64_t all = 0;
    for (int s : stages) {
        if (p.stages[s].part != Part::d_input) continue;
        for (int b : stage_reads(p, p.stages[s]))
            if (p.buffers[b].role == Role::parameter) all += p.buffers[b].bytes();
        weights_read.emplace_back(place_of.at(s), all);
    }
    std::ranges::sort(weights_read);
}

/// When a kernel would like to run, as a place in the plan: at that of its last stage; norms, fused updates of small
/// models and those of a worker's part right after what they read was made, while that is in the cache.
double Joining::wish(const std::vector<int> &list) const {
    bool soon = false;
    double last = 0, made = 0;
    for (int s : list) {
        soon |= p.stages[s].part == Part::norm || (p.stages[s].part == Part::next && (list.size() > 1 || p.workers > 1));
        last = std::max<double>(last, place_of.at(s));
        for (int b : stage_reads(p, p.stages[s]))
            if (auto w = writer.find(p.base(b)); w != writer.end() && !std::count(list.begin(), list.end(), w->second))
                made = std::max(made, place_of.at(w->second) + 0.5);
    }
    if (!soon) return last;
    const bool in_product = std::ranges::any_of(list, [&](int s) { return p.stages[s].part == Part::d_parameter; });
    return in_product ? out_of_caches(made) : made;
}

/// Kahn's algorithm over kernels; among those that are ready, the one that wishes to run first.
std::vector<int> Joining::sorted(const std::map<int, std::vector<int>> &members) {
    std::map<int, std::set<int>> after;
    std::map<int, int> waits;
    auto add = [&](const std::vector<int> &earlier, int t) {
        for (int s : earlier)
            if (root(s) != root(t)) waits[root(t)] += after[root(s)].insert(root(t)).second;
    };
    std::map<int, std::vector<int>> wrote, read;  // by buffer: the stages so far
    std::map<const Parameter *, std::vector<int>> gradients;
    for (int t : stages) {
        const StageSpec &spec = p.stages[t];
        for (int b : stage_reads(p, spec)) add(wrote[p.base(b)], t);
        if (spec.part == Part::next)  // others read the old weight
            for (int b : spec.writes) add(read[p.base(b)], t);
        if (spec.part == Part::d_parameter) add(gradients[spec.parameter], t), gradients[spec.parameter].push_back(t);
        for (int b : stage_reads(p, spec)) read[p.base(b)].push_back(t);
        for (int b : spec.writes) wrote[p.base(b)].push_back(t);
    }
    count_weights_read();
    std::set<std::pair<double, int>> ready;
    std::map<int, double> wishes;
    for (auto &[g, list] : members)
        if (wishes[g] = wish(list); !waits[g]) ready.insert({wishes[g], g});
    std::vector<int> order;
    while (!ready.empty()) {
        const int g = ready.begin()->second;
        ready.erase(ready.begin());
        order.push_back(g);
        for (int later : after[g])
            if (!--waits[later]) ready.insert({wishes[later], later});
    }
    if (order.size() == members.size()) return order;
    auto stuck = std::ranges::find_if(members, [&](auto &m) { return waits[m.first] > 0; });
    fail("the step schedule joins '{}' with stages that both precede and follow a kernel between them; compute one of them at "
         "root", p.stages[stuck->first].name);
}

int Joining::add_kernel(std::vector<int> list) {
    std::sort(list.begin(), list.end());
    Kernel k;
    k.stages = list;
    for (int s : list) {
        const StageSpec &spec = p.stages[s];
        bool update = spec.part == Part::next || spec.part == Part::norm || spec.part == Part::scale;
        k.pass = spec.again ? "rebuild" : spec.part == Part::forward ? "forward" : update ? "update" : "backward";
        k.name += (k.name.empty() ? "" : " + ") + spec.name;
        Nature n = stage_nature(p, spec);
        bool row = n == Nature::rowwise && k.anchor < 0;
        bool own = n == Nature::anchor &&
                   (k.anchor < 0 || stage_nature(p, p.stages[k.anchor]) == Nature::rowwise);
        if (row || own) k.anchor = s;
    }
    p.kernels.push_back(k);
    return int(p.kernels.size()) - 1;
}

}  // namespace cryolite::compiler
