// Where the update of each parameter is computed: beside its gradient, at its next use, or after all of backward.

#include <algorithm>

#include "generators/dialects.h"
#include "generators/joining.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

Joining::Uses Joining::uses(const Parameter *w) const {
    Uses u;
    for (int s : stages) {
        if (p.stages[s].parameter != w) continue;
        if (p.stages[s].part == Part::d_parameter) u.gradients.push_back(s);
        if (p.stages[s].part == Part::next) u.update = s;
    }
    return u;
}

void Joining::default_updates() {
    for (int s : stages) {
        StageSpec &spec = p.stages[s];
        if (spec.part != Part::next || asked_root(spec.parameter)) continue;
        if (options.update != "backward" && options.update != "auto") {
            spec.why = "--update " + options.update;
            continue;
        }
        spec.why = fusible(spec.parameter);
        if (spec.why.empty()) spec.why = made_elsewhere(spec.parameter);
        if (spec.why.empty() && options.update == "auto") spec.why = pays(spec.parameter);
        if (spec.why.empty()) fuse_update(spec.parameter, "--update " + options.update);
    }
}

/// Why a fused update takes longer than a separate one; empty: it does not.
std::string Joining::pays(const Parameter *w) const {
    for (int s : uses(w).gradients) {
        const Graph::Call &c = p.graph.calls()[p.stages[s].call];
        const Shape &x = p.graph.values()[c.inputs[0]].shape;
        if (c.layer->scatters()) continue;  // rides with the product of a tied table
        int most = fused_update_rows(*c.layer, options.clip || p.optimizer->takes(Norm::gradient)), rows = int(x.size() / x[0]);
        if (most == 0) return fmt::format("fusing is not known to pay for a {}", c.layer->kind());
        if (rows > most) return fmt::format("{} rows: fusing pays up to {}", rows, most);
    }
    return "";
}

/// Which dialect was asked for the product that makes the gradient, and can: its loops hold no update; empty: none.
std::string Joining::made_elsewhere(const Parameter *w) const {
    for (int s : uses(w).gradients) {
        const Kernel alone{p.stages[s].name, "backward", {s}, s};
        if (const auto [dialect, why] = asked_dialect(p, options, alone); dialect != "halide" && why_not(p, alone, dialect).empty())
            return fmt::format("{}: {} makes the gradient, and has no updates in its loops", why, dialect);
    }
    return "";
}

bool Joining::asked_root(const Parameter *w) const {
    for (auto &[stage, where] : p.schedule->placements)
        if ((stage == d(*w) || stage == next(*w)) && where.how == Placement::root) return true;
    return false;
}

/// Why the gradient of `w` cannot live inside its update; empty: it can.
std::string Joining::fusible(const Parameter *w) const {
    // Legality condition 5: reduced, then the part of each worker updated.
    if (p.workers > 1)
        return fmt::format("the gradients of {} workers are added first, and each worker updates its part of the sum", p.workers);
    const std::vector<int> gradients = uses(w).gradients;
    auto layer = [&](int s) -> const Layer & { return *p.graph.calls()[p.stages[s].call].layer; };
    int products = 0, scattered = 0;
    bool factored = true;
    for (int s : gradients) {
        scattered += layer(s).scatters();
        products += !layer(s).scatters() && layer(s).nature() == Nature::anchor;
        factored &= layer(s).factored(*w);
    }
    if (products + scattered < int(gradients.size()))
        return "the gradient is computed together with others of its layer, or of all rows at once, in loops that hold no update";
    if (products == 0) return "the gradient adds at places that depend on data, so no element of it is whole before the last row";
    if (products > 1 && p.blocks.rows)
        return fmt::format("the head's rows come in blocks of {}, and the gradient is the sum of theirs", p.blocks.rows);
    if (products > 1)
        return fmt::format("the parameter is used by {} products, and its gradient is their sum", products);
    if (scattered && p.buffers[p.parameter_buffer.at(w)].layout.row_major())
        return "rows scattered into a tied table need it in panels";
    // Legality condition 6 is met as clipping is: by norms, which tell whether all is finite.
    if (!options.clip && p.guarded() && (options.accumulate || !factored))
        return "an update is withheld where a gradient is not finite, which is not yet known";
    if (options.clip && options.accumulate)
        return "clipping by the global norm needs the norm of the sum over micro-batches, which has to be stored for that";
    if (options.clip && !factored)
        return "clipping by the global norm needs the gradient's norm before the first update, and its layer does not write "
               "the gradient as outer products (Layer::factors)";
    if (p.optimizer->takes(Norm::gradient) && (options.accumulate || !factored))
        return fmt::format("the rule '{}' takes the gradient's norm before it changes the first element, and {}", p.optimizer->name(),
                           options.accumulate ? "that of the sum over micro-batches needs the sum stored"
                                              : "its layer does not write the gradient as outer products (Layer::factors)");
    for (int s : stages) {
        const StageSpec &spec = p.stages[s];
        if (spec.part != Part::d_parameter || spec.parameter == w) continue;
        for (int b : stage_reads(p, spec))
            if (b == p.parameter_buffer.at(w))
                return fmt::format("'{}' reads the weight as it was before its update", spec.name);
    }
    return "";
}

void Joining::fuse_update(const Parameter *w, const std::string &why) {
    Uses u = uses(w);
    if (!options.accumulate) p.buffers[p.gradient_buffer[w]].stored = false;
    for (int g : u.gradients) join(g, u.update, "at");
    p.stages[u.update].why = why;
    p.stages[u.update].placed = "with its gradient";
}

void Joining::place_gradient(const Stage &stage, const Placement &where) {
    const Placement own{Placement::at, next(*stage.parameter)};
    if (where.target != own.target)
        refuse(stage, where, "a gradient can only be placed inside the update of its own parameter", own.line());
    if (where.how != Placement::at)
        refuse(stage, where, "the update reads each element of the gradient once", own.line());
    if (plan != "step") return;
    if (p.lazy.count(stage.parameter))
        refuse(stage, where, "its update is placed at forward, when the operands of the gradient are gone", ".compute_root()");
    if (std::string why = fusible(stage.parameter); !why.empty()) refuse(stage, where, why, ".compute_root()");
    fuse_update(stage.parameter, "a line of the step schedule");
}

void Joining::place_update(const Stage &stage, const Placement &where) {
    if (where.how == Placement::at && where.target == forward) return;  // `partition` has moved it
    refuse(stage, where, "an update is placed by placing its gradient, or at forward", ".compute_root()");
}

/// Of the two ways to a norm keeps the one whose operand exists.
void Joining::drop_norms() {
    auto unwanted = [&](int s) {
        const StageSpec &spec = p.stages[s];
        return spec.part == Part::norm && !spec.of_weight && ghost(spec) == p.buffers[p.gradient_buffer[spec.parameter]].stored;
    };
    stages.erase(std::remove_if(stages.begin(), stages.end(), unwanted), stages.end());
}

}  // namespace cryolite::compiler
