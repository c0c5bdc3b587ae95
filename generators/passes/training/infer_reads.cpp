// Which values an operation really reads: a gradient is offered all that its layer's call saw, and uses some of it.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// Operations with equal signatures read the same ones, by position, of the values that they are offered: they ask one
/// layer for the same, with the same shapes and formats. The layer itself counts, not its type, because what it reads
/// may follow from its data members.
class Signature {
public:
    Signature(const StepProgram &p, const ir::Op &op) : p(p), op(op) {
        // The slot of a norm is its place among all norms, which says nothing of what it reads.
        text = fmt::format("{} {} {}", ir::kind_name(op), what(), ir::addends_of(op).size());
        for (ValueId a : ir::addends_of(op)) format(a);
        for (const ir::Ref &w : op.writes) format(w.value);
        if (auto c = ir::call_of(op))
            call(*c);
        else if (ParamId w = ir::parameter_of(op))
            parameter(w);
    }
    std::string text;

private:
    const StepProgram &p;
    const ir::Op &op;

    void format(ValueId v) { text += fmt::format(" {}", p.values[v].type.bits); }
    /// Of a parameter in 16 bits, the master may be read, too.
    void parameter(ParamId w) {
        const ir::Parameter &of = p.parameters[w];
        text += fmt::format(" {}{}{}", of.name, of.shape.str(), of.master ? " and its master" : "");
        format(of.value);
    }
    std::string what() const {
        if (auto *g = ir::as<ir::InputGrad>(op)) return std::to_string(g->input);
        if (auto *g = ir::as<ir::ParamGrad>(op)) {
            const auto &own = p.layer(g->call).parameters;
            return fmt::format("{} {}", std::ranges::find(own, g->w) - own.begin(), g->accumulate);
        }
        if (auto *s = ir::as<ir::NextState>(op)) return p.parameters[s->states.front()].name;
        auto *n = ir::as<ir::Norm>(op);
        return n ? p.parameters[n->w].name + (n->of_weight() ? " of weight" : "") : "";
    }
    void call(CallId id) {
        const ir::Call &c = p.calls[id];
        const auto use = ir::use_of(op);
        text += fmt::format(" {} {}", p.layer_key(id), use && use->dy == p.scalars);
        for (ValueId v : c.inputs) text += p.values[v].shape.str(), format(v);
        text += fmt::format(" {}", p.layer(id).half_products);
        format(c.output);
        if (use) format(use->dy);
        for (ParamId w : p.layer(id).parameters) parameter(w);
        auto *n = ir::as<ir::Norm>(op);
        if (auto *gram = n ? std::get_if<ir::Gram>(&n->how) : nullptr)
            text += fmt::format(" and {} {}{}{}", gram->a.call == gram->b.call, p.layer_key(gram->b.call),
                                p.values[p.calls[gram->b.call].inputs[0]].shape.str(), gram->a.dy == gram->b.dy);
        else if (n)
            text += " bound";
    }
};

}  // namespace

void infer_reads(StepProgram &p, const Context &cx) {
    std::vector<std::string> signatures;
    for (const ir::Op &op : p.ops) signatures.push_back(Signature(p, op).text);
    std::map<std::string, std::vector<bool>> here, &known = cx.known ? cx.known->reads : here;
    std::set<std::string> unknown;
    std::vector<OpId> asked;  // the first operation of each signature
    for (OpId id : p.ops.ids())
        if (const std::string &text = signatures[size_t(id.index)]; !known.count(text) && unknown.insert(text).second)
            asked.push_back(id);
    const auto answers = asked.empty() ? std::vector<std::vector<ValueId>>() : cx.oracle(p, asked);
    for (size_t i = 0; i < asked.size(); i++) {
        auto &reads = known[signatures[size_t(asked[i].index)]];
        for (const ir::Ref &r : p.ops[asked[i]].reads) reads.push_back(std::ranges::count(answers[i], r.value) > 0);
    }
    for (OpId id : p.ops.ids()) {
        ir::Op &op = p.ops[id];
        const std::vector<bool> &reads = known.at(signatures[size_t(id.index)]);
        std::vector<ir::Ref> kept;
        for (size_t i = 0; i < reads.size(); i++)
            if (reads[i]) kept.push_back(op.reads[i]);
        // The array that a gradient is added to is read in place, as an output.
        if (auto *g = ir::as<ir::ParamGrad>(op); g && g->accumulate) kept.push_back(op.reads.back());
        // An update that adds the gradients of all workers reads its own worker's, too.
        if (auto *u = ir::as<ir::Update>(op); u && !p.parameters[u->w].shares.empty())
            kept.push_back({p.parameters[u->w].gradient});
        op.reads = kept;
    }
    for (auto &[name, entry] : p.entries) number_versions(p, entry);
}

}  // namespace cryolite::compiler
