// The optimizer's part of a step: norms where a rule, clipping or a guard takes them, the factor of clipping,
// the updates.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

class EmitUpdates {
public:
    EmitUpdates(StepProgram &p, const Context &cx) : p(p), cx(cx) {}

    void run() {
        if (cx.takes_norms(p))
            for (ParamId w : p.trained()) gradient_norms(w);
        if (cx.optimizer.takes(cryolite::Norm::weight))
            for (ParamId w : p.trained()) add(norm(w, "old ", ir::OfWeight{}));
        if (cx.options.clip || p.guarded) scale();
        if (p.loss_scaler) next_loss_scale();
        for (ParamId w : p.trained()) update(w);
    }

private:
    StepProgram &p;
    const Context &cx;

    void add(ir::Op op) { add_op(p, entry::step, std::move(op)); }
    ir::Op norm(ParamId w, const char *of, decltype(ir::Norm::how) how) const {
        return {.name = fmt::format("norm({}{})", of, p.parameters[w].path),
                .kind = ir::Norm{w, how},
                .writes = {{p.norms}}};
    }
    /// Adds the norm of the stored gradient, and the norm without it where its layers write it as outer products.
    /// `select_norms` keeps one of the two.
    void gradient_norms(ParamId w) {
        add(norm(w, "", ir::OfGradient{}));
        if (!cx.options.accumulate && p.workers == 1 && !p.parts) ghost_norms(w);
    }
    /// Adds a norm for each pair of calls that use the parameter.
    void ghost_norms(ParamId w) {
        std::vector<ir::Use> uses;
        int products = 0;
        for (OpId id : ops_of(p, entry::step))
            if (auto *g = ir::as<ir::ParamGrad>(p.ops[id]); g && g->w == w) {
                if (!p.layer(g->call).factors(w)) return;
                products += !p.layer(g->call).scatters;
                uses.push_back({g->call, g->dy});
            }
        if (products > 1) return;  // the gradient is their sum, which is stored
        const bool bounded =
            !cx.options.clip && !cx.optimizer.takes(cryolite::Norm::gradient);  // only whether all is finite counts
        for (size_t a = 0; a < uses.size(); a++)
            for (size_t b = a; b < (bounded ? a + 1 : uses.size()); b++) {
                ir::Op op =
                    bounded ? norm(w, "", ir::CauchySchwarzBound{uses[a]}) : norm(w, "", ir::Gram{uses[a], uses[b]});
                op.flops = gram_flops(uses[a].call, uses[b].call, bounded);
                add(op);
            }
    }
    /// Operations for the inner products of rows with rows; a factor of one-hot rows needs none. A call with itself
    /// needs half of the pairs of rows, a bound each row with itself alone.
    double gram_flops(CallId a, CallId b, bool bounded) const {
        const Shape &y = p.values[p.layer(b).scatters ? p.calls[b].output : p.calls[a].output].shape;
        const bool one_hot = p.layer(a).scatters || p.layer(b).scatters;
        const double width = y[0] + (one_hot ? 0 : p.values[p.calls[a].inputs[0]].shape[0]),
                     rows = double(y.size()) / y[0];
        return width * (bounded ? 2 * rows : a == b ? rows * (rows + 1) : 2 * rows * rows);
    }
    void scale() {
        ir::Op op{.name = cx.options.clip ? "clip" : "finite",
                  .kind = ir::GradientScale{cx.options.clip},
                  .writes = {{p.scale}}};
        if (p.guarded) op.writes.push_back({p.count});
        add(op);
    }
    /// Comes after all that reads the scale of this step, which is a factor of its gradients.
    void next_loss_scale() {
        const auto &[scale, good_steps, low_steps] = p.loss_scaler;
        add({.name = "next(loss_scale)", .kind = ir::NextLossScale{}, .writes = {{scale}, {good_steps}, {low_steps}}});
    }
    void update(ParamId id) {
        const ir::Parameter &w = p.parameters[id];
        ir::Op op{.name = "next(" + w.path + ")",
                  .kind = ir::Update{id, cx.options.clip || p.loss_scaler},
                  .writes = {{w.value}}};
        for (ValueId state : w.states) op.writes.push_back({state});
        if (w.master) op.writes.push_back({w.master});
        add(op);
    }
};

}  // namespace

void emit_updates(StepProgram &p, const Context &cx) {
    EmitUpdates(p, cx).run();
    number_versions(p, p.entries.at(entry::step));
}

}  // namespace cryolite::compiler
