// Values that are not kept until the backward pass: it computes them again, before the first call that may read them.

#include <algorithm>

#include "generators/passes/pipeline.h"
#include "generators/passes/trace.h"

namespace cryolite::compiler {

namespace {

/// Adds the operations that compute values again to one entry, in the order of its backward pass.
class Rematerialise {
public:
    Rematerialise(StepProgram &p, const Context &cx, std::vector<ValueId> &order, const std::vector<OpId> &forward_ops)
        : p(p), cx(cx), order(order), forward_ops(forward_ops), on_path(size_t(p.values.size())) {
        on_path[size_t(p.loss.index)] = true;
        for (int i = p.calls.size(); i-- > 0;)
            if (const ir::Call &c = p.calls[CallId(i)]; on_path[size_t(c.output.index)])
                for (ValueId v : c.inputs) on_path[size_t(p.base(v).index)] = on_path[size_t(v.index)] = true;
    }
    void run(ir::Entry &e) {
        int next = p.calls.size() - 1;  // the backward pass has reached all calls after this one
        for (OpId id : e.ops) {
            const int c = call_behind(p.ops[id]);
            for (; c >= 0 && next > c; next--) offer(CallId(next));
            if (c >= 0 && c == next && !ir::is<ir::AddAdjoints>(p.ops[id])) offer(CallId(next--));
            ops.push_back(id);
            for (const ir::Ref &w : p.ops[id].writes) order.push_back(p.base(w.value)), order.push_back(w.value);
        }
        e.ops = ops;
    }

private:
    StepProgram &p;
    const Context &cx;
    std::vector<ValueId> &order;           ///< arrays, in the order in which they are first written
    const std::vector<OpId> &forward_ops;  ///< by call
    std::vector<bool> on_path;             ///< by value: whether the loss depends on it
    std::vector<OpId> ops;
    std::set<ValueId> made;

    int call_behind(const ir::Op &op) const {
        if (ir::is<ir::Norm>(op)) return -1;
        if (auto *s = ir::as<ir::AddAdjoints>(op)) return p.values[s->of].producer.index;
        return ir::call_of(op).value_or(CallId()).index;
    }
    /// Rematerialises all that the gradients of a call may read.
    void offer(CallId c) {
        if (!on_path[size_t(p.calls[c].output.index)]) return;
        for (ValueId v : p.calls[c].inputs) remat(v);
        remat(p.calls[c].output);
    }
    void remat(ValueId v) {
        if (ValueId whole = p.values[v].part_of) {
            remat(whole);
            if (!p.values[whole].remat || p.values[v].remat) return;
            const ValueId part = add(v);
            return become_part(p, part, p.values[whole].remat, p.values[v].begin);
        }
        const CallId c = p.values[v].producer;
        if (!c || v == p.loss || p.chunks.calls.count(c)) return;
        if (!p.layer(c).remat && !cx.options.remat.count(c)) return;
        if (!made.insert(v).second) return;
        for (ValueId x : p.calls[c].inputs) remat(x);
        if (!p.values[v].remat) add(v);
        ir::Op op = forward_op(p, c, ir::Forward::remat);
        op.placed = "rematerialised";
        op.reads = p.ops[forward_ops[size_t(c.index)]].reads;
        ops.push_back(p.ops.add(op));
        for (ir::Line &l : p.lines)
            if (l.how == ir::Line::store && l.stage.layer == p.calls[c].layer) l.met(ops.back());
    }
    ValueId add(ValueId v) {
        const ir::Value &of = p.values[v];
        const std::string name = of.part_of ? p.traced_name(v) : p.layer(of.producer).path;
        const ValueId again = add_activation(p, name + " again", p.values[v].shape, p.values[v].type);
        order.push_back(again);
        return p.values[v].remat = again;
    }
};

/// The entries of micro-batches, in the order in which a step runs them.
std::vector<ir::Entry *> training_entries(StepProgram &p) {
    std::vector<ir::Entry *> list;
    for (auto &[name, entry] : p.entries)
        if (entry.mode == ir::Entry::training) list.push_back(&entry);
    std::ranges::sort(list, {}, [](const ir::Entry *e) { return e->ops.front(); });
    return list;
}

/// Gives arrays numbers in the order in which they are first written.
void renumber(StepProgram &p, int first, const std::vector<ValueId> &order) {
    std::vector<ValueId> to(size_t(p.values.size()));
    std::vector<int> from;
    auto place = [&](ValueId v) {
        if (v.index >= first && !to[size_t(v.index)])
            to[size_t(v.index)] = ValueId(first + int(from.size())), from.push_back(v.index);
    };
    for (ValueId v : order) place(v);
    for (ValueId v : p.values.ids()) place(v);
    auto change = [&](ValueId &v) {
        if (v.index >= first) v = to[size_t(v.index)];
    };
    std::vector<ir::Value> moved;
    for (int v : from) moved.push_back(p.values[ValueId(v)]);
    for (size_t i = 0; i < moved.size(); i++) p.values[ValueId(first + int(i))] = moved[i];
    for (ir::Value &v : p.values) change(v.remat), change(v.part_of);
    for (ir::Op &op : p.ops) ir::for_each_value(op, change);
}

}  // namespace

void rematerialise(StepProgram &p, const Context &cx) {
    std::vector<OpId> forward_ops(size_t(p.calls.size()));
    for (OpId id : p.ops.ids())
        if (auto *f = ir::as<ir::Forward>(p.ops[id]); f && f->when == ir::Forward::in_forward)
            forward_ops[size_t(f->call.index)] = id;
    std::vector<ValueId> order;
    const ValueId last = p.loss_scaler ? p.loss_scaler.low_steps : p.count ? p.count : p.scale;
    const int first = last.index + 1;
    for (ir::Entry *e : training_entries(p)) Rematerialise(p, cx, order, forward_ops).run(*e);
    renumber(p, first, order);
    for (ir::Op &op : p.ops)
        for (ir::Ref &r : op.reads) r.value = p.operand(op, r.value);
    for (auto &[name, entry] : p.entries) number_versions(p, entry);
}

/// Drops rematerialised values that nobody reads. There are some because gradients are offered more than they read.
void drop_dead(StepProgram &p, const Context &) {
    for (auto &[name, entry] : p.entries) {
        std::set<ValueId> read;
        for (auto id = entry.ops.end(); id != entry.ops.begin();) {
            const ir::Op &op = p.ops[*--id];
            auto *f = ir::as<ir::Forward>(op);
            if (f && f->when == ir::Forward::remat && !read.count(op.writes[0].value)) {
                for (ir::Line &l : p.lines) std::erase(l.verdict.by, *id);
                id = entry.ops.erase(id);
                continue;
            }
            for (const ir::Ref &r : op.reads) read.insert(p.base(r.value));
        }
    }
    for (ir::Line &l : p.lines)
        if (l.how == ir::Line::store && l.verdict.by.empty())
            l.verdict = {.is = ir::Verdict::unneeded, .words = "the backward pass does not read it"};
}

}  // namespace cryolite::compiler
