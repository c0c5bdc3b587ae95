// Which stages share a kernel: defaults, then the lines of the step schedule, each proved legal or refused.

#include <algorithm>
#include <set>

#include "generators/partition.h"
#include "schedules/defaults.h"

namespace cryolite {

Nature stage_nature(const StepProgram &p, const StageSpec &s) {
    switch (s.part) {
    case Part::forward: return p.graph.calls()[s.call].layer->nature();
    case Part::d_input: return p.graph.calls()[s.call].layer->nature();
    case Part::d_parameter:
    case Part::norm: return Nature::anchor;
    default: return Nature::pointwise;
    }
}

std::vector<int> stage_reads(const StepProgram &p, const StageSpec &s) {
    if (s.analysed) return s.reads;
    std::vector<int> reads = s.addends;
    if (s.call >= 0) {
        const Graph::Call &c = p.graph.calls()[s.call];
        for (int v : c.inputs) reads.push_back(p.value_buffer[v]);
        for (const Parameter *w : c.layer->parameters()) reads.push_back(p.parameter_buffer.at(w));
        if (s.part != Part::forward) reads.push_back(p.value_buffer[c.output]);
    }
    if (s.dy >= 0) reads.push_back(s.dy);
    if (s.part == Part::d_parameter && s.accumulate) reads.push_back(s.writes[0]);
    if (s.part == Part::next || s.part == Part::norm) reads.push_back(p.gradient_buffer.at(s.parameter));
    if (s.part == Part::next) reads.push_back(p.scalars);
    if (s.part == Part::next && s.scaled) reads.push_back(p.scale);
    if (s.part == Part::scale) reads.push_back(p.norms);
    return reads;
}

namespace {

[[noreturn]] void refuse(const Stage &s, const Placement &where, const std::string &why,
                         const std::string &nearest) {
    fail("s({}){} is refused: {}; the nearest legal line is s({}){}", s.str(), where.line(), why,
         s.str(), nearest);
}

/// The stages of one plan, and which of them share a kernel.
class Partition {
public:
    Partition(StepProgram &p, const StepOptions &options, const std::string &plan)
        : p(p), options(options), plan(plan) {
        for (int k : p.plans[plan]) stages.push_back(p.kernels[k].stages.at(0));
        for (int s : stages) group[s] = s;
        for (int s : stages)
            for (int b : p.stages[s].writes) writer[b] = s;
    }

    void defaults() {
        for (int s : stages) {
            const StageSpec &spec = p.stages[s];
            if (spec.part == Part::forward && stage_nature(p, spec) == Nature::sum) join_residual(s);
            if (spec.part == Part::d_parameter) join_sibling(s);
        }
        bool everywhere = options.update == "backward", where_it_pays = options.update == "auto";
        for (int s : stages) {
            const Parameter *w = p.stages[s].parameter;
            if (p.stages[s].part != Part::next || !fusible(w).empty()) continue;
            if (everywhere || (where_it_pays && pays(w) && !asked_root(w))) fuse_update(w);
        }
    }

    /// Whether the line concerns stages of this plan.
    bool apply(const Stage &stage, const Placement &where) {
        if (where.how == Placement::root) return true;
        if (stage.kind == Stage::gradient) return place_gradient(stage, where), true;
        if (stage.kind == Stage::next)
            refuse(stage, where, "an update is placed by placing its gradient", ".compute_root()");
        bool concerned = false;
        for (int s : find(stage))
            for (int t : find(where.target)) concerned |= place(stage, where, s, t);
        return concerned;
    }

    /// Writes the kernels of this plan back, in an order that respects every dependence.
    void finish() {
        std::map<int, std::vector<int>> members;
        for (int s : stages) members[root(s)].push_back(s);
        std::vector<int> order = sorted(members);
        std::vector<int> ids;
        for (int g : order) ids.push_back(add_kernel(members[g]));
        p.plans[plan] = ids;
    }

private:
    StepProgram &p;
    const StepOptions &options;
    std::string plan;
    std::vector<int> stages;
    std::map<int, int> group, writer;

    int root(int s) { return group[s] == s ? s : group[s] = root(group[s]); }
    void join(int s, int into, const std::string &how) {
        p.stages[s].placed = how + " " + p.stages[into].name;
        group[root(s)] = root(into);
    }
    std::vector<int> readers(int buffer) const {
        std::vector<int> list;
        for (int s : stages)
            for (int b : stage_reads(p, p.stages[s]))
                if (b == buffer) { list.push_back(s); break; }
        return list;
    }

    /// x + f(...): the addition joins the kernel of f when nothing else in the pass reads f.
    void join_residual(int s) {
        const Graph::Call &c = p.graph.calls()[p.stages[s].call];
        for (int k = int(c.inputs.size()) - 1; k >= 0; k--) {
            int b = p.value_buffer[c.inputs[k]];
            if (!writer.count(b) || stage_nature(p, p.stages[writer[b]]) != Nature::anchor) continue;
            if (readers(b).size() != 1 || p.graph.calls()[p.stages[writer[b]].call].layer->rank() != 2) continue;
            p.buffers[b].stored = false;
            p.stages[writer[b]].placed = "at " + p.stages[s].name;
            return join(s, writer[b], "with");
        }
    }
    /// Gradients of one call over the same rows and of the same shape share a loop nest.
    void join_sibling(int s) {
        const StageSpec &spec = p.stages[s];
        if (p.graph.calls()[spec.call].layer->nature() == Nature::anchor || spec.accumulate) return;
        for (int t : stages) {
            const StageSpec &other = p.stages[t];
            if (t >= s || other.part != Part::d_parameter || other.call != spec.call) continue;
            if (other.parameter->shape() == spec.parameter->shape() && !other.accumulate)
                return join(s, t, "with");
        }
    }

    bool pays(const Parameter *w) const {
        for (int s : stages) {
            const StageSpec &spec = p.stages[s];
            if (spec.part != Part::d_parameter || spec.parameter != w) continue;
            const Graph::Call &c = p.graph.calls()[spec.call];
            if (!fused_update_pays(*c.layer, p.graph.values()[c.inputs[0]].shape)) return false;
        }
        return true;
    }
    bool asked_root(const Parameter *w) const {
        for (auto &[stage, where] : p.schedule->placements)
            if (stage == d(*w) && where.how == Placement::root) return true;
        return false;
    }
    /// Why the gradient of `w` cannot live inside its update; empty: it can.
    std::string fusible(const Parameter *w) const {
        int uses = 0;
        bool product = false, scatter = false;
        std::string reader;
        for (int s : stages) {
            const StageSpec &spec = p.stages[s];
            if (spec.part != Part::d_parameter) continue;
            if (spec.parameter != w) {
                for (int b : stage_reads(p, spec))
                    if (b == p.parameter_buffer.at(w)) reader = spec.name;
                continue;
            }
            uses++;
            scatter = p.graph.calls()[spec.call].layer->scatters();
            product = p.graph.calls()[spec.call].layer->nature() == Nature::anchor;
        }
        if (options.clip)
            return "clipping by the global norm needs every gradient before the first update";
        if (uses != 1)
            return fmt::format("the parameter is used by {} calls (shared or tied), and its gradient is their sum", uses);
        if (scatter) return "the gradient adds at places that depend on data, so no element of it is whole before the last row";
        if (!reader.empty()) return fmt::format("'{}' reads the weight as it was before its update", reader);
        if (!product) return "the gradient is computed together with others of its layer";
        return "";
    }
    void fuse_update(const Parameter *w) {
        int gradient = -1, update = -1;
        for (int s : stages) {
            if (p.stages[s].parameter != w) continue;
            if (p.stages[s].part == Part::d_parameter) gradient = s;
            if (p.stages[s].part == Part::next) update = s;
        }
        if (!options.accumulate) p.buffers[p.gradient_buffer[w]].stored = false;
        join(gradient, update, "at");
    }
    void place_gradient(const Stage &stage, const Placement &where) {
        if (where.target != next(*stage.parameter))
            refuse(stage, where, "a gradient can only be placed inside the update of its own parameter",
                   Placement{Placement::at, next(*stage.parameter)}.line());
        if (where.how != Placement::at)
            refuse(stage, where, "the update reads each element of the gradient once",
                   Placement{Placement::at, next(*stage.parameter)}.line());
        if (plan != "step") return;
        if (std::string why = fusible(stage.parameter); !why.empty())
            refuse(stage, where, why, ".compute_root()");
        fuse_update(stage.parameter);
    }

    /// The stages of this plan that a line names.
    std::vector<int> find(const Stage &stage) const {
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
    bool place(const Stage &stage, const Placement &where, int s, int t) {
        if (s == t) refuse(stage, where, "it is the same stage", ".compute_root()");
        bool before = feeds(s, t);
        if (!before && !feeds(t, s)) return false;
        // What each has been joined with comes along.
        int first = before ? s : t, later = before ? t : s;
        if (root(s) != root(t) && holds(first, Nature::anchor) >= 0) {
            if (holds(later, Nature::anchor) >= 0) refuse(stage, where, "both own a loop nest", ".compute_root()");
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
    int holds(int s, Nature n) {
        for (int t : stages)
            if (root(t) == root(s) && stage_nature(p, p.stages[t]) == n) return t;
        return -1;
    }
    bool feeds(int s, int t) const {
        for (int b : stage_reads(p, p.stages[t]))
            for (int w : p.stages[s].writes)
                if (b == w) return true;
        return false;
    }
    /// A stage that is never stored may have no reader outside its kernel, but those that can rebuild it.
    void check_unread(const Stage &stage, const Placement &where, int s, int t) {
        for (int b : p.stages[s].writes) {
            if (b == p.output || b == p.loss)
                refuse(stage, where, "it is a result of the model", Placement{Placement::with, where.target}.line());
            for (int r : readers(b))
                if (root(r) != root(t) && root(r) != root(s))
                    refuse(stage, where, "'" + p.stages[r].name + "' reads it too",
                           Placement{Placement::with, where.target}.line());
            p.buffers[b].stored = false;
        }
    }

    std::vector<int> sorted(const std::map<int, std::vector<int>> &members);
    int add_kernel(std::vector<int> list);
};

/// Kahn's algorithm over kernels; among those that are ready, the one whose last stage comes first.
std::vector<int> Partition::sorted(const std::map<int, std::vector<int>> &members) {
    std::map<int, std::set<int>> before;
    for (int s : stages)
        for (int t : stages) {
            int a = root(s), b = root(t);
            if (a == b) continue;
            bool after_write = s < t && feeds(s, t);
            bool before_overwrite = p.stages[t].part == Part::next && s < t &&
                                    feeds(t, s);  // s reads the old weight
            bool same_gradient = s < t && p.stages[s].part == Part::d_parameter &&
                                 p.stages[t].part == Part::d_parameter &&
                                 p.stages[s].parameter == p.stages[t].parameter;
            if (after_write || before_overwrite || same_gradient) before[b].insert(a);
        }
    std::vector<std::pair<int, int>> waiting;  // last stage, group
    for (auto &[g, list] : members) waiting.push_back({list.back(), g});
    std::sort(waiting.begin(), waiting.end());
    std::vector<int> order;
    while (!waiting.empty()) {
        auto ready = std::find_if(waiting.begin(), waiting.end(),
                                  [&](auto &w) { return before[w.second].empty(); });
        if (ready == waiting.end())
            fail("the step schedule joins '{}' with stages that both precede and follow a kernel between them; "
                 "compute one of them at root", p.stages[waiting[0].first].name);
        int g = ready->second;
        waiting.erase(ready);
        order.push_back(g);
        for (auto &[other, set] : before) set.erase(g);
    }
    return order;
}

int Partition::add_kernel(std::vector<int> list) {
    std::sort(list.begin(), list.end());
    Kernel k;
    k.stages = list;
    for (int s : list) {
        const StageSpec &spec = p.stages[s];
        bool update = spec.part == Part::next || spec.part == Part::norm || spec.part == Part::scale;
        k.pass = spec.part == Part::forward ? "forward" : update ? "update" : "backward";
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

}  // namespace

void partition(StepProgram &p, const StepOptions &options) {
    std::vector<std::string> names;
    for (auto &[name, kernels] : p.plans) names.push_back(name);
    const size_t separate = p.kernels.size();
    std::vector<bool> concerned(p.schedule->placements.size());
    for (const std::string &name : names) {
        Partition part(p, options, name);
        part.defaults();
        for (size_t i = 0; i < concerned.size(); i++)
            if (part.apply(p.schedule->placements[i].first, p.schedule->placements[i].second)) concerned[i] = true;
        part.finish();
    }
    for (size_t i = 0; i < concerned.size(); i++)
        if (auto &[stage, where] = p.schedule->placements[i]; !concerned[i])
            refuse(stage, where, "neither of the two reads the other", ".compute_root()");
    // Only the joined kernels stay.
    p.kernels.erase(p.kernels.begin(), p.kernels.begin() + long(separate));
    for (auto &[name, kernels] : p.plans)
        for (int &k : kernels) k -= int(separate);
}

}  // namespace cryolite
