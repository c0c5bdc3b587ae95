// Takes out what need not be computed. It works on the graph of calls, before there are adjoints, which follow from
// what is left. Equal calls are made once. Operators that do nothing, or undo an operator before them, are taken out.
// Operators on constants become constants. The gradient of a call that is made once is the gradient of all of its uses.

#include <cmath>

#include <algorithm>
#include <numeric>
#include <span>

#include "dsl/layers/times.h"
#include "dsl/tensor.h"
#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"

namespace cryolite::compiler {

namespace {

class Simplify {
public:
    Simplify(StepProgram &p, const Context &cx) : p(p), cx(cx), g(p.graph), instead(g.values().size()) {
        std::iota(instead.begin(), instead.end(), 0);
        read_before = readers();
    }

    /// Returns whether anything has changed. Then `now` has the new number of each value.
    bool run() {
        merge_constants();
        for (int c = 0; c < int(g.calls().size()); c++) simplify(c);
        drop_unread();
        for (size_t v = 0; v < instead.size(); v++) changed |= instead[v] != int(v);
        if (changed) now = g.drop(instead);
        return changed;
    }
    std::vector<int> now;

private:
    StepProgram &p;
    const Context &cx;
    Graph &g;
    std::vector<int> instead;      ///< by value: the value that replaces it, or -1, as Graph::drop takes them
    std::vector<int> read_before;  ///< by value: how often, before any change
    std::map<std::string, int> made;
    bool changed = false;

    std::vector<int> readers() const {
        std::vector<int> count(g.values().size());
        for (const Graph::Call &c : g.calls())
            for (int v : c.inputs) count[size_t(v)]++;
        return count;
    }
    const Graph::Call &call(int c) const { return g.calls()[size_t(c)]; }
    const Graph::Value &value(int v) const { return g.values()[size_t(v)]; }
    /// Results of the model stay: the runtime reads them.
    bool is_result(int v) const { return v == p.loss.index || v == p.output.index; }
    /// The operator of the model that makes a value, if it is of this type; null otherwise.
    template <typename L> const L *maker(int v) const {
        const int c = value(v).producer;
        return c >= 0 && g.owns(*call(c).layer) ? dynamic_cast<const L *>(call(c).layer) : nullptr;
    }
    int source(int v) const { return call(value(v).producer).inputs.at(0); }
    bool is_constant(int v) const { return !value(v).constant.empty(); }

    void merge_constants() {
        std::map<std::string, int> known;  // by the bits: -0 is not 0
        for (int v = 0; v < int(g.values().size()); v++) {
            if (!is_constant(v)) continue;
            const std::span bytes = std::as_bytes(std::span(value(v).constant));
            const std::string bits(reinterpret_cast<const char *>(bytes.data()), bytes.size());
            instead[size_t(v)] = known.try_emplace(value(v).shape.str() + bits, v).first->second;
        }
    }

    void simplify(int c) {
        std::vector<int> inputs = call(c).inputs;
        for (int &v : inputs) v = instead[size_t(v)];
        redo(c, *call(c).layer, inputs);
        const int out = call(c).output;
        if (is_result(out)) return;
        const bool is_operator = g.owns(*call(c).layer);
        if (is_operator) join_with_source(c);
        if (const int same = is_operator ? unchanged(c) : -1; same >= 0) return void(instead[size_t(out)] = same);
        if (is_operator && fold(c)) return;
        if (const std::string key = key_of(c); !key.empty())
            if (const auto [known, fresh] = made.try_emplace(key, out); !fresh) instead[size_t(out)] = known->second;
    }
    void redo(int c, Layer &layer, const std::vector<int> &inputs) {
        if (call(c).layer == &layer && call(c).inputs == inputs) return;
        g.redo(c, layer, inputs);
        changed = true;
    }
    template <typename L, typename... Given> void become(int c, int from, Given &&...given) {
        redo(c, g.own(std::make_unique<L>(std::forward<Given>(given)...)), {from});
    }

    /// Joins a reshape of a reshape, a permutation of a permutation, or a factor of a multiple into one operator.
    void join_with_source(int c) {
        const int out = call(c).output, x = call(c).inputs.at(0);
        if (maker<Reshape>(out) && maker<Reshape>(x))
            return become<Reshape>(c, source(x), value(source(x)).shape, value(out).shape);
        if (const auto *outer = maker<Permute>(out), *inner = maker<Permute>(x); outer && inner) {
            std::vector<int> order;
            for (int k : outer->order) order.push_back(inner->order[size_t(k)]);
            return become<Permute>(c, source(x), value(source(x)).shape, order);
        }
        // With another reader the first product is computed anyway.
        const auto *outer = maker<Times>(out), *inner = maker<Times>(x);
        if (outer && inner && read_before[size_t(x)] == 1 && !is_result(x) && std::isfinite(outer->k * inner->k))
            become<Times>(c, source(x), outer->k * inner->k);
    }
    /// The value that an operator passes on as it is; -1: it does something.
    int unchanged(int c) const {
        const int out = call(c).output, x = call(c).inputs.at(0);
        const bool same_shape = call(c).inputs.size() == 1 && value(x).shape == value(out).shape;
        const auto *permute = maker<Permute>(out);
        const auto *times = maker<Times>(out);
        const bool nothing = maker<Reshape>(out) || maker<Slice>(out) || maker<Concat>(out) || maker<Broadcast>(out) ||
                             (permute && std::ranges::is_sorted(permute->order)) || (times && times->k == 1);
        return same_shape && nothing ? x : -1;
    }
    /// Folds an operator on constants into a constant. One that is larger than its operands stays, because it is quick
    /// to compute but long in a plan.
    bool fold(int c) {
        const Graph::Call &it = call(c);
        const bool constant = std::ranges::all_of(it.inputs, [&](int v) { return is_constant(v); });
        if (!constant || !cx.constants || !it.layer->attributes()) return false;
        int64_t elements = 0;
        for (int v : it.inputs) elements += value(v).shape.size();
        if (value(it.output).shape.size() > elements) return false;
        const std::string name = value(it.output).name;
        const Tensor folded = g.constant(name, value(it.output).shape, folded_elements(it));
        instead.push_back(folded.id()), read_before.push_back(1);
        instead[size_t(it.output)] = folded.id();
        return true;
    }
    std::vector<float> folded_elements(const Graph::Call &c) const {
        std::string key = c.layer->kind() + " " + *c.layer->attributes();
        std::vector<ConstantArray> arrays;
        for (int v : c.inputs) {
            arrays.push_back({value(v).shape, value(v).constant});
            key += fmt::format(" {}: {}", value(v).shape.str(), fmt::join(value(v).constant, " "));
        }
        if (!cx.known) return cx.constants(*c.layer, arrays);
        auto [known, fresh] = cx.known->constants.try_emplace(key);
        if (fresh) known->second = cx.constants(*c.layer, arrays);
        return known->second;
    }
    /// What equal calls have in common: the layer, or of operators what they compute, and what they read. Empty: the
    /// call equals no other. This holds for a layer with a state, which each call changes, and for one that reads the
    /// mode of the run, since it may draw random numbers.
    std::string key_of(int c) const {
        const Graph::Call &it = call(c);
        if (std::ranges::any_of(it.inputs, [&](int v) { return g.is_mode(v); })) return "";
        const auto &parameters = it.layer->parameters();
        if (std::ranges::any_of(parameters, [](const Parameter *w) { return w->is_state(); })) return "";
        std::string layer = fmt::format("{}", static_cast<const void *>(it.layer));
        if (const auto words = it.layer->attributes(); words && g.owns(*it.layer) && parameters.empty())
            layer = it.layer->kind() + " " + *words;
        return fmt::format("{} of {}", layer, fmt::join(it.inputs, " "));
    }

    /// Drops what was read before and no longer is. What nothing has ever read is a mistake in the model: it stays, so
    /// that an error can name it.
    void drop_unread() {
        std::vector<int> count = readers();
        for (const Graph::Ids &ids : g.ids())
            if (ids.class_weights >= 0) count[size_t(instead[size_t(ids.class_weights)])]++;
        auto unread = [&](int v) { return !count[size_t(v)] && read_before[size_t(v)] && !is_result(v); };
        for (int c = int(g.calls().size()); c-- > 0;) {
            const int out = call(c).output;
            const bool gone = instead[size_t(out)] != out;
            if (!gone && !(unread(out) && g.owns(*call(c).layer))) continue;
            if (!gone) instead[size_t(out)] = -1;
            for (int v : call(c).inputs) count[size_t(v)]--;
        }
        for (int v = 0; v < int(g.values().size()); v++)
            if (instead[size_t(v)] == v && is_constant(v) && unread(v)) instead[size_t(v)] = -1;
    }
};

}  // namespace

void simplify(StepProgram &p, const Context &cx) {
    Simplify pass(p, cx);
    if (!pass.run()) return;
    const int output = pass.now[size_t(p.output.index)], loss = pass.now[size_t(p.loss.index)];
    p = program_of(std::move(p.graph), output, loss, cx);
}

}  // namespace cryolite::compiler
