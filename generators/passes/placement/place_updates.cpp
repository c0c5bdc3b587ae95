// Where the update of each parameter is computed: in the kernel of its gradient, or after all of the backward pass.

#include <algorithm>

#include "generators/passes/placement/dialects.h"
#include "generators/passes/entry_view.h"
#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"
#include "schedules/defaults.h"

namespace cryolite::compiler {

namespace {

class PlaceUpdates {
public:
    PlaceUpdates(StepProgram &p, const Context &cx)
        : p(p), cx(cx), e(p, entry::step), uses(size_t(p.parameters.size())) {
        for (OpId id : e.entry.ops) {
            if (auto *g = ir::as<ir::ParamGrad>(p.ops[id])) of(g->w).gradients.push_back(id);
            if (auto *u = ir::as<ir::Update>(p.ops[id])) of(u->w).update = id;
        }
    }
    void defaults() {
        const std::string asked = "--update " + cx.options.update;
        const bool wanted = cx.options.update == "backward" || cx.options.update == "auto";
        for (OpId id : e.entry.ops) {
            auto *u = ir::as<ir::Update>(p.ops[id]);
            if (!u) continue;
            Reason why;
            if (wanted) why = hindrance(u->w);
            if (wanted && !why) why = made_elsewhere(u->w);
            if (cx.options.update == "auto" && !why) why = pays_not(u->w);
            const bool fuses = wanted && !why;
            if ((fuses || cx.options.update == "forward") && asked_apart(u->w)) continue;
            p.ops[id].why = why ? why.words : asked, p.ops[id].rule = why.rule;
            if (fuses) fuse_update(u->w, asked);
        }
    }
    void apply(ir::Line &l) {
        if (l.left_out()) return;  // its parameter is frozen
        if (!obey(l, [&] { place(l); })) p.ops[of(l.stage.parameter).update].why = note_of(l);
    }

private:
    struct Uses {
        std::vector<OpId> gradients;  ///< operations that make the parameter's gradient, in order
        OpId update;
    };
    StepProgram &p;
    const Context &cx;
    EntryView e;
    std::vector<Uses> uses;
    static constexpr const char *fused = "with its gradient";

    Uses &of(ParamId w) { return uses[size_t(w.index)]; }
    CallId call(OpId g) const { return ir::as<ir::ParamGrad>(p.ops[g])->call; }

    void place(ir::Line &l) {
        const ParamId w = l.stage.parameter;
        if (l.how == ir::Line::root) return l.met(of(w).update);
        if (l.stage.kind == ir::Stage::next) {
            if (l.how == ir::Line::at && l.target.kind == ir::Stage::pass) return;  // `defer_updates` has moved it
            if (joins(l)) return;                                                   // `join_updates` will
            refuse(l, rules::placed_by_gradient, ".compute_root()");
        }
        const std::string own = ".compute_at(next(" + p.parameters[w].path + "))";
        if (l.target.kind != ir::Stage::next || l.target.parameter != w) refuse(l, rules::own_update, own);
        if (l.how != ir::Line::at) refuse(l, rules::gradient_read_once, own);
        if (p.parameters[w].deferred) refuse(l, rules::operands_gone, ".compute_root()");
        if (Reason why = hindrance(w)) refuse(l, why, ".compute_root()");
        // A line that asks for what the flag does anyway changes nothing.
        if (p.ops[of(w).update].placed != fused) fuse_update(w, "a line of the step schedule");
        for (OpId g : of(w).gradients) l.met(g);
    }
    /// Whether a line keeps its update apart from its gradient.
    bool asked_apart(ParamId w) const {
        return std::ranges::any_of(p.lines, [&](const ir::Line &l) {
            return l.stage.parameter == w &&
                   (joins(l) || (l.how == ir::Line::root &&
                                 (l.stage.kind == ir::Stage::gradient || l.stage.kind == ir::Stage::next)));
        });
    }
    /// Why the gradient of `w` cannot live inside its update.
    Reason hindrance(ParamId w) {
        if (p.parts) return {rules::sum_of_parts, p.parts};
        if (p.workers > 1) return {rules::sum_of_workers, p.workers};
        int products = 0, scattered = 0;
        bool factored = true;
        for (OpId g : of(w).gradients) {
            const ir::Layer &layer = p.layer(call(g));
            scattered += layer.scatters;
            products += !layer.scatters && layer.nature == Nature::anchor;
            factored &= layer.factors(w);
        }
        if (products + scattered < int(of(w).gradients.size())) return rules::not_a_product;
        if (products == 0) return rules::scattered;
        if (products > 1 && p.chunks.rows) return {rules::sum_of_blocks, p.chunks.rows};
        if (products > 1) return {rules::sum_of_products, products};
        if (scattered > 1) return {rules::scattered_twice, scattered};
        if (scattered && p.values[p.parameters[w].value].layout.row_major()) return rules::scattered_rows;
        if (Reason why = unknown_norm(factored)) return why;
        for (OpId r : e.readers(p.parameters[w].value))
            if (auto *g = ir::as<ir::ParamGrad>(p.ops[r]); g && g->w != w) return {rules::old_weight, p.ops[r].name};
        return {};
    }
    /// Why the norm of a gradient is not known in time, if that is needed: for clipping, for the rule, or to see
    /// whether the gradient is finite, which its norm tells.
    Reason unknown_norm(bool factored) const {
        const bool sum = cx.options.accumulate;
        if (!cx.options.clip && p.guarded && (sum || !factored)) return rules::not_known_finite;
        if (cx.options.clip && sum) return rules::norm_of_sum;
        if (cx.options.clip && !factored) return rules::norm_first;
        if (!cx.optimizer.takes(cryolite::Norm::gradient)) return {};
        if (sum) return {rules::rule_takes_norm_of_sum, cx.optimizer.name()};
        return factored ? Reason() : Reason(rules::rule_takes_norm, cx.optimizer.name());
    }
    /// Whether the product that makes the gradient is computed by a dialect, whose loops hold no update.
    Reason made_elsewhere(ParamId w) {
        for (OpId g : of(w).gradients) {
            const ir::Kernel alone{.name = p.ops[g].name, .pass = "backward", .ops = {g}, .anchor = g};
            const AskedDialect asked = asked_dialect(p, cx.options, alone);
            if (asked.dialect != "halide" && why_not(p, alone, asked.dialect).empty())
                return {rules::dialect_makes_gradient, asked.why, asked.dialect};
        }
        return {};
    }
    /// Why a fused update takes longer than a separate one.
    Reason pays_not(ParamId w) {
        for (OpId g : of(w).gradients) {
            const Layer &layer = p.source(call(g));
            if (layer.scatters()) continue;  // it is added in the kernel of the tied table's product
            const Shape &x = p.values[p.calls[call(g)].inputs[0]].shape;
            const int most = fused_update_rows(layer, cx.options.clip || cx.optimizer.takes(cryolite::Norm::gradient));
            const int rows = int(x.size() / x[0]);
            if (most == 0) return {rules::never_pays, layer.kind()};
            if (rows > most) return {rules::too_many_rows, rows, most};
        }
        return {};
    }
    void fuse_update(ParamId w, const std::string &why) {
        if (!cx.options.accumulate) p.values[p.parameters[w].gradient].stored = false;
        ir::Op &update = p.ops[of(w).update];
        for (OpId g : of(w).gradients) e.fuse_into(g, of(w).update, "at");
        update.why = why, update.placed = fused, update.rule.clear();
    }
};

}  // namespace

void place_updates(StepProgram &p, const Context &cx) {
    PlaceUpdates pass(p, cx);
    pass.defaults();
    for (ir::Line &l : p.lines)
        if (l.places() && (l.stage.kind == ir::Stage::gradient || l.stage.kind == ir::Stage::next)) pass.apply(l);
}

/// A norm may be computed from the stored gradient or without it. Keeps the first if the gradient is stored.
void select_norms(StepProgram &p, const Context &) {
    auto unwanted = [&](OpId id) {
        auto *n = ir::as<ir::Norm>(p.ops[id]);
        return n && !n->of_weight() && n->ghost() == p.values[p.parameters[n->w].gradient].stored;
    };
    auto &ops = p.entries.at(entry::step).ops;
    for (OpId id : ops)
        if (unwanted(id)) std::erase(p.kernels[p.ops[id].kernel].ops, id), p.ops[id].kernel = {};
    std::erase_if(ops, unwanted);
}

}  // namespace cryolite::compiler
