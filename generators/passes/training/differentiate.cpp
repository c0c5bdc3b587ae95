// Reverse mode over the calls: an adjoint for each value that the loss depends on, a gradient for each parameter.

#include <algorithm>

#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"

namespace cryolite::compiler {

namespace {

/// By value: whether it has floating-point elements and depends on a trained parameter. `none_frozen`: takes frozen
/// parameters for trained ones.
std::vector<bool> trains(const StepProgram &p, bool none_frozen = false) {
    std::vector<bool> list(size_t(p.values.size()));
    for (CallId id : p.calls.ids()) {
        const ir::Call &c = p.calls[id];
        auto trained = [&](ParamId w) { return p.parameters[w].trained() || (none_frozen && !p.parameters[w].state); };
        bool any = std::ranges::any_of(p.layers[c.layer].parameters, trained);
        for (int k = 0; k < int(c.inputs.size()); k++)
            any |= p.source(id).differentiates(k) && list[size_t(p.base(c.inputs[size_t(k)]).index)];
        const ir::DataType::Kind kind = p.values[c.output].type.kind;
        list[size_t(c.output.index)] = any && (kind == ir::DataType::floating || kind == ir::DataType::bfloat);
    }
    for (ValueId v : p.values.ids()) list[size_t(v.index)] = list[size_t(p.base(v).index)];
    return list;
}

class Differentiate {
public:
    Differentiate(StepProgram &p, const std::vector<bool> &trains, const std::string &entry, bool accumulate,
                  bool rounds)
        : p(p), trains(trains), entry(entry), accumulate(accumulate), rounds(rounds) {}

    void run() {
        p.entries[entry].mode = ir::Entry::training, p.entries[entry].results = p.losses();
        for (int i = p.calls.size(); i-- > 0;) backward(CallId(i));
        if (p.chunks.rows) forward_block(p.values[p.loss].producer);
    }

private:
    StepProgram &p;
    const std::vector<bool> &trains;  ///< by value: whether the gradient of a trained parameter depends on its adjoint
    const std::string entry;
    const bool accumulate;                            ///< gradients are added to those of earlier micro-batches
    const bool rounds;                                ///< products read the adjoint of their result in 16 bits
    std::map<ValueId, std::vector<ValueId>> pending;  ///< by value: the arrays that add up to its adjoint
    std::map<ValueId, ValueId> whole_adjoint;         ///< by value: the array whose parts are the adjoints of its parts
    std::set<CallId> made;                            ///< calls of chunks that have been added
    std::set<ParamId> used;

    void backward(CallId c) {
        const ir::Call call = p.calls[c];
        next_states(c);
        const ValueId dy = adjoint(call.output);
        if (!dy) return;
        if (call.output != p.loss) forward_block(c);
        const ir::Layer &layer = p.layers[call.layer];
        const bool product = layer.half_products && layer.product && !layer.product->window;
        ValueId half;
        auto factor = [&] {
            if (!half) half = rounds && product ? rounded(call.output, dy) : dy;
            return half;
        };
        for (int k = 0; k < int(call.inputs.size()); k++)
            if (trains[size_t(call.inputs[size_t(k)].index)] && p.source(c).differentiates(k))
                input_grad(c, k, factor());
        for (ParamId w : layer.parameters)
            if (p.parameters[w].trained()) param_grad(c, w, p.parameters[w].shape.rank() > 1 ? factor() : dy);
    }
    /// The adjoint of a product's result as the product's loops would round it, in an array of 16 bits: libraries read
    /// no fp32 beside 16 bits. It is `dy` itself where that has 16 bits.
    ValueId rounded(ValueId y, ValueId dy) {
        const ir::DataType half = data_type(storage_type(p.format));
        if (p.values[dy].type == half) return dy;
        ir::Op op{.name = "d(" + p.traced_name(y) + ")", .kind = ir::AddAdjoints{y, {dy}}};
        const ValueId v = add_activation(p, op.name, p.values[y].shape, half);
        p.values[v].format_why = "products read it, and their other factor has 16 bits";
        op.writes = {{v}};
        add_op(p, entry, op);
        return v;
    }
    /// Adds a call of a chunk, and before it the chunk's calls that it reads, where the backward pass first needs it.
    void forward_block(CallId c) {
        if (!p.chunks.calls.count(c) || !made.insert(c).second) return;
        for (ValueId v : p.calls[c].inputs)
            if (CallId producer = p.values[v].producer) forward_block(producer);
        add_op(p, entry, block_op(p, c, ir::Forward::in_backward));
    }
    /// The array that holds the whole adjoint of a value; none where the loss does not depend on it.
    ValueId adjoint(ValueId v) {
        if (v == p.loss) return p.scalars;
        auto it = pending.find(v);
        if (it == pending.end()) return {};
        if (it->second.size() == 1) return it->second[0];
        ir::Op op{.name = "d(" + p.traced_name(v) + ")", .kind = ir::AddAdjoints{v, it->second}};
        const ValueId sum = add_activation(p, op.name, p.values[v].shape, p.values[v].adjoint);
        p.values[sum].format_why = p.values[v].adjoint_why;
        op.writes = {{sum}};
        add_op(p, entry, op);
        return sum;
    }
    void input_grad(CallId c, int k, ValueId dy) {
        const ValueId v = p.calls[c].inputs[size_t(k)];
        if (p.is_sum(c)) return pending[v].push_back(dy);
        ir::Op op{.name = "d(" + p.traced_name(v) + ")", .kind = ir::InputGrad{c, k, dy, pending[v]}};
        const ValueId dx = adjoint_array(op.name, v);
        op.writes = {{dx}}, op.flops = p.calls[c].input_grad_flops;
        pending[p.base(v)] = {p.base(dx)};
        add_op(p, entry, op);
    }
    /// A new array for a value's adjoint. That of a part of a value is the same part of the whole's adjoint: each part
    /// has one reader, and the whole has no other.
    ValueId adjoint_array(const std::string &name, ValueId v) {
        const ValueId whole = p.values[v].part_of;
        auto add = [&](const std::string &name, ValueId of) {
            const ValueId d = add_activation(p, name, p.values[of].shape, p.values[of].adjoint);
            p.values[d].format_why = p.values[of].adjoint_why;
            return d;
        };
        if (!whole) return add(name, v);
        if (!whole_adjoint.count(whole)) whole_adjoint[whole] = add("d(" + p.traced_name(whole) + ")", whole);
        const ValueId part = add_activation(p, name, p.values[v].shape, {});
        become_part(p, part, whole_adjoint[whole], p.values[v].begin);
        return part;
    }
    /// Adds the next states of a layer, of all its calls at once: each call goes on from the states that the call
    /// before has made. They come at the first call, which the backward pass reaches last.
    void next_states(CallId first) {
        const LayerId layer = p.calls[first].layer;
        auto has_state = [&](ParamId w) { return p.parameters[w].state; };
        if (std::ranges::none_of(p.layers[layer].parameters, has_state)) return;
        if (p.parts)
            fail("[{}] {} updates a state from the whole batch, and --deterministic computes a batch in parts: "
                 "leave --deterministic out, or use a layer without a state, as GroupNorm",
                 p.layers[layer].path, p.layers[layer].kind);
        std::vector<CallId> calls;
        for (CallId c : p.calls.ids())
            if (p.calls[c].layer == layer) calls.push_back(c);
        if (calls.front() != first) return;
        for (CallId c : calls) next_states_of(c);
    }
    /// States of one shape are computed together, because they follow from the same sums.
    void next_states_of(CallId c) {
        std::map<std::vector<int>, std::vector<ParamId>> of_shape;
        for (ParamId w : p.layer(c).parameters)
            if (p.parameters[w].state) of_shape[p.parameters[w].shape.extents()].push_back(w);
        for (auto &[extents, states] : of_shape) {
            ir::Op op{.name = "next(" + p.layer(c).path + ")", .kind = ir::NextState{c, states}};
            if (p.workers > 1) std::get<ir::NextState>(op.kind).shard = {0, 0, Shape(extents).size()};
            for (ParamId w : states) op.writes.push_back({p.parameters[w].value});
            add_op(p, entry, op);
        }
    }
    void param_grad(CallId c, ParamId w, ValueId dy) {
        const bool first = used.insert(w).second;
        ir::Op op{.name = "d(" + p.parameters[w].path + ")", .kind = ir::ParamGrad{c, w, dy, accumulate || !first}};
        op.writes = {{p.parameters[w].gradient}};
        op.flops = p.parameters[w].shape.rank() > 1 ? p.calls[c].param_grad_flops : 0;
        add_op(p, entry, op);
    }
};

/// By value: whether the loss depends on it.
std::vector<bool> reaches_loss(const StepProgram &p) {
    std::vector<bool> list(size_t(p.values.size()));
    list[size_t(p.loss.index)] = true;
    for (int i = p.calls.size(); i-- > 0;)
        if (const ir::Call &c = p.calls[CallId(i)]; list[size_t(c.output.index)])
            for (ValueId v : c.inputs) list[size_t(p.base(v).index)] = list[size_t(v.index)] = true;
    return list;
}

/// Every parameter that a layer of the model declares must be met by the trace, and the loss must depend on it.
void check_used(const StepProgram &p, const std::vector<bool> &counts) {
    for (const Parameter *w : Parameter::living())
        if (!p.parameter_ids.count(w))
            fail("[{}] is never used: the model does not call its layer; call it, or remove it (layers are members "
                 "of the model: forward() makes none)",
                 w->path());
    std::set<ParamId> used;
    for (const ir::Op &op : p.ops)
        if (auto *g = ir::as<ir::ParamGrad>(op)) used.insert(g->w);
    for (const ir::Call &c : p.calls)
        if (counts[size_t(c.output.index)])
            for (ParamId w : p.layers[c.layer].parameters)
                if (!p.parameters[w].trained()) used.insert(w);
    for (ParamId w : p.parameters.ids())
        if (!used.count(w))
            fail("[{}] has no gradient: the loss does not depend on it; remove it or use its layer",
                 p.parameters[w].path);
}

/// Counts what frozen parameters save: their own gradients, and adjoints that only those would need.
void count_spared(StepProgram &p, const std::vector<bool> &now, const std::vector<bool> &counts) {
    const std::vector<bool> otherwise = trains(p, true);
    std::set<LayerId> with_adjoint;
    for (CallId id : p.calls.ids()) {
        const ir::Call &c = p.calls[id];
        if (!counts[size_t(c.output.index)]) continue;
        if (now[size_t(c.output.index)]) with_adjoint.insert(c.layer);
        for (ValueId v : c.inputs)
            if (otherwise[size_t(v.index)] && !now[size_t(v.index)] && !p.is_sum(id))
                p.spared.flops += c.input_grad_flops;
        for (ParamId w : p.layers[c.layer].parameters)
            if (const ir::Parameter &o = p.parameters[w]; !o.trained() && !o.state && o.shape.rank() > 1)
                p.spared.flops += c.param_grad_flops;
    }
    for (const ir::Call &c : p.calls)
        p.layers[c.layer].no_adjoint = otherwise[size_t(c.output.index)] && !with_adjoint.count(c.layer);
}

}  // namespace

void differentiate(StepProgram &p, const Context &cx) {
    const std::vector<bool> now = trains(p), counts = reaches_loss(p);
    const bool rounds = p.format != fp32 && cx.schedule.machine.gpu();
    auto run = [&](const std::string &entry, bool accumulate) {
        Differentiate(p, now, entry, accumulate, rounds).run();
    };
    if (cx.options.accumulate || p.parts) run(entry::first, false);
    if (cx.options.accumulate) run(entry::accumulate, true);
    if (p.parts)
        // The step has only the updates, and runs once the gradients of all parts are added.
        p.entries[entry::step].mode = ir::Entry::training;
    else
        run(entry::step, cx.options.accumulate);
    check_used(p, counts);
    count_spared(p, now, counts);
    for (auto &[name, entry] : p.entries) number_versions(p, entry);
}

}  // namespace cryolite::compiler
