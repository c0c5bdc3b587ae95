// Compares what layers declare by nature() with what they compute. A layer that declares nothing, and for which no
// loops are written, gets the nature of what it computes.

#include <algorithm>

#include "generators/passes/pipeline.h"
#include "schedules/table.h"

namespace cryolite::compiler {

namespace {

class InferNatures {
public:
    InferNatures(StepProgram &p, const Context &cx) : p(p), cx(cx), known(cx.known ? cx.known->natures : here) {
        for (OpId id : p.ops.ids())
            if (concerns(id)) results[p.calls[*ir::call_of(p.ops[id])].layer].push_back({id, signature(id)});
    }
    void run() {
        ask();
        for (auto &[layer, list] : results) {
            for (const Result &r : list) check(p.layers[layer], known.at(r.signature));
            if (says_nothing(p.layers[layer])) recognise(p.layers[layer], list);
        }
    }

private:
    StepProgram &p;
    const Context &cx;
    std::map<std::string, std::optional<ComputedNature>> here, &known;
    struct Result {
        OpId op;
        std::string signature;  ///< equal for results that have the same answer
    };
    std::map<LayerId, std::vector<Result>> results;  ///< by layer: the results to ask about

    bool says_nothing(const ir::Layer &l) const {
        return l.nature == Nature::anchor && !l.product && !has_loops(l.kind, cx.schedule.machine);
    }
    /// Whether to ask about an operation. A layer that declares its nature declares it for its result. Of a layer that
    /// declares nothing, the gradients of its inputs count, too.
    bool concerns(OpId id) const {
        const auto call = ir::call_of(p.ops[id]);
        if (!call) return false;
        const ir::Layer &l = p.layer(*call);
        auto *f = ir::as<ir::Forward>(p.ops[id]);
        if (f) return f->when == ir::Forward::in_forward && (l.nature != Nature::anchor || says_nothing(l));
        return ir::is<ir::InputGrad>(p.ops[id]) && says_nothing(l);
    }
    std::string signature(OpId id) const {
        const ir::Op &op = p.ops[id];
        const CallId c = *ir::call_of(op);
        auto *g = ir::as<ir::InputGrad>(op);
        std::string text = fmt::format("{} {} {}", p.layer_key(c), g ? g->input : -1, format_name(p.format));
        for (ValueId v : p.calls[c].inputs) text += " " + p.values[v].shape.str();
        return text;
    }
    void ask() {
        std::set<std::string> unknown;
        std::vector<const Result *> first;  // the first result of each signature
        std::vector<OpId> asked;
        for (const auto &[layer, list] : results)
            for (const Result &r : list)
                if (!known.count(r.signature) && unknown.insert(r.signature).second)
                    first.push_back(&r), asked.push_back(r.op);
        if (asked.empty()) return;
        const auto answers = cx.natures(p, asked);
        for (size_t i = 0; i < asked.size(); i++) known[first[i]->signature] = answers.at(i);
    }
    static void check(const ir::Layer &l, const std::optional<ComputedNature> &c) {
        if (!c || l.nature == Nature::anchor || c->nature == Nature::pointwise) return;
        const bool rowwise = c->nature == Nature::rowwise;
        if (rowwise && l.nature == Nature::rowwise) return;
        fail("[{}] {}: nature() says {}, but {}; {}", l.path, l.kind,
             l.nature == Nature::rowwise ? "rowwise" : "pointwise", c->witness,
             rowwise ? "return Nature::rowwise" : "leave nature() out");
    }
    void recognise(ir::Layer &l, const std::vector<Result> &list) const {
        Nature all = Nature::pointwise;
        for (const Result &r : list) {
            const std::optional<ComputedNature> &c = known.at(r.signature);
            if (!c || c->is_declared_only || c->nature == Nature::anchor) return;
            if (c->nature == Nature::rowwise) all = Nature::rowwise;
        }
        // A pointwise layer anchors no kernel, so the program's own loops for it would not be used.
        if (all == Nature::rowwise || !has_own_loops(list[0].op)) l.nature = all;
    }
    bool has_own_loops(OpId id) const {
        const Layer &layer = p.source(*ir::call_of(p.ops[id]));
        return std::ranges::any_of(cx.schedule.loops_of,
                                   [&](const auto &own) { return own.first.first == typeid(layer); });
    }
};

}  // namespace

void infer_natures(StepProgram &p, const Context &cx) {
    if (cx.natures) InferNatures(p, cx).run();
}

}  // namespace cryolite::compiler
