// How operations come to share a kernel: defaults, then the lines of the step schedule, each proved legal or refused.

#include <algorithm>

#include "generators/ir/ranks.h"
#include "generators/passes/entry_view.h"
#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// Whether one line places a single call of a layer, and the other line all calls of the same layer.
bool places_call_of(const ir::Line &own, const ir::Line &all) {
    return !all.stage.call && own.stage.call && own.places() && own.stage.kind == all.stage.kind &&
           own.stage.layer == all.stage.layer;
}

class Fuse {
public:
    Fuse(StepProgram &p, const std::string &entry)
        : p(p), e(p, entry), later(size_t(p.values.size())), calls_of(later.size()) {
        for (OpId id : e.entry.ops) p.ops[id].kernel = p.kernels.add({.ops = {id}});
        for (const auto &[name, other] : p.entries)
            for (OpId id : other.ops)
                if (name != entry && ir::in_backward(p.ops[id]))
                    for (const ir::Ref &r : p.ops[id].reads)
                        if (OpId &reader = later[size_t(p.base(r.value).index)]; !reader) reader = id;
        for (CallId c : p.calls.ids())
            for (ValueId x : p.calls[c].inputs) calls_of[size_t(p.base(x).index)].push_back(c);
    }
    void defaults() {
        for (const ir::Line &l : p.lines)
            if (l.how == ir::Line::root && l.places())
                for (OpId id : e.named(l.stage)) alone_by_line.push_back(id);
        for (OpId id : e.entry.ops) {
            if (auto *f = ir::as<ir::Forward>(p.ops[id]); f && p.is_sum(f->call)) fuse_residual(id, *f);
            if (auto *g = ir::as<ir::ParamGrad>(p.ops[id])) fuse_sibling(id, *g);
            if (auto *g = ir::as<ir::InputGrad>(p.ops[id])) fuse_addends(id, *g);
        }
    }
    void apply(ir::Line &l) {
        for (OpId s : placed(l))
            for (OpId t : e.named(l.target))
                if (!obey(l, [&] {
                        if (place(l, s, t)) l.met(s);
                    }))
                    p.ops[s].why = note_of(l);
    }
    void keep(ir::Line &l) const {
        for (OpId s : placed(l)) l.met(s);
    }

private:
    StepProgram &p;
    EntryView e;
    std::vector<OpId> later;                    ///< by value: what reads it in the backward pass of another entry
    std::vector<std::vector<CallId>> calls_of;  ///< by value: the calls that read it
    std::map<CallId, std::vector<OpId>> gradients;
    std::vector<OpId> alone_by_line;

    /// The operations that a line places: those of its stage, except for calls that have a line of their own.
    std::vector<OpId> placed(const ir::Line &l) const {
        std::vector<OpId> list = e.named(l.stage);
        for (const ir::Line &own : p.lines)
            if (places_call_of(own, l))
                for (OpId id : e.named(own.stage)) std::erase(list, id);
        return list;
    }
    /// Whether the readers of a value compute it again, because it is not stored.
    bool computed_again(ValueId v) const {
        const ir::Value &value = p.values[v];
        return !value.stored && value.producer && p.layer(value.producer).nature != Nature::anchor;
    }
    /// What reads a value in the backward pass of another entry, if only to compute an unstored value from it.
    OpId later_reader(ValueId v) const {
        if (const OpId r = later[size_t(p.base(v).index)]) return r;
        for (CallId c : calls_of[size_t(p.base(v).index)])
            if (computed_again(p.calls[c].output))
                if (const OpId r = later_reader(p.calls[c].output)) return r;
        return {};
    }
    /// The same, if the value must be stored for that reader, because its layer is too expensive to compute again.
    OpId must_be_stored_for(OpId writer, ValueId v) const {
        return p.nature(p.ops[writer]) == Nature::anchor ? later_reader(v) : OpId();
    }
    /// Why the backward pass cannot compute a value again: it lacks an input of the value's call.
    Reason missing_source(OpId reader, ValueId v) const {
        for (ValueId x : p.calls[p.values[v].producer].inputs) {
            const ir::Value &source = p.values[x];
            if (source.remat) return {rules::source_gone, p.ops[reader].name, source.name};
            if (source.stored || !source.producer) continue;
            if (!computed_again(x)) return {rules::source_unstored, p.ops[reader].name, source.name};
            if (Reason why = missing_source(reader, x)) return why;
        }
        return {};
    }

    /// x + f(...): the addition is fused into the kernel of f when nothing else in the pass reads f.
    void fuse_residual(OpId s, const ir::Forward &f) {
        const auto &inputs = p.calls[f.call].inputs;
        for (size_t k = inputs.size(); k-- > 0;) {
            const ValueId v = p.operand(p.ops[s], inputs[k]);
            const OpId maker = p.base(v) == v ? e.writer(v) : OpId();
            if (!maker || p.is_result(v) || p.nature(p.ops[maker]) != Nature::anchor || e.readers(v).size() != 1)
                continue;
            if (p.source(*ir::call_of(p.ops[maker])).rank() != 2 || must_be_stored_for(maker, v)) continue;
            return fuse_unstored(maker, s);
        }
        for (const ValueId v : inputs)
            if (const OpId maker = only_for(p.operand(p.ops[s], v)); maker && see_alike(maker, s))
                fuse_unstored(maker, s);
    }
    /// An adjoint adds the adjoint that a pointwise layer makes of the same value: both go into one kernel.
    void fuse_addends(OpId s, const ir::InputGrad &g) {
        if (p.layer(g.call).product) return;  // a dialect may compute the product, and adds only stored arrays
        for (const ValueId v : g.addends)
            if (const OpId maker = only_for(v); maker && see_alike(maker, s)) fuse_unstored(maker, s);
    }
    /// The pointwise operation that makes a value, if it is alone in its kernel and the value has a single reader.
    OpId only_for(ValueId v) const {
        const OpId maker = p.base(v) == v ? e.writer(v) : OpId();
        const bool whole = maker && std::ranges::count(p.ops[maker].writes, v, &ir::Ref::value);
        const bool alone = whole && ir::call_of(p.ops[maker]) && p.nature(p.ops[maker]) == Nature::pointwise &&
                           e.mates(maker).size() == 1 && !std::ranges::count(alone_by_line, maker);
        return alone && !p.is_result(v) && e.readers(v).size() == 1 && !later_reader(v) ? maker : OpId();
    }
    ir::Kernel both(OpId s, OpId t) const {
        ir::Kernel k{.ops = e.mates(s)};
        k.ops.insert(k.ops.end(), e.mates(t).begin(), e.mates(t).end());
        return k;
    }
    bool see_alike(OpId s, OpId t) const {
        try {
            ir::kernel_ranks(p, both(s, t));
            return true;
        } catch (const ir::RanksDiffer &) {
            return false;
        }
    }
    void fuse_unstored(OpId maker, OpId reader) {
        for (const ir::Ref &w : p.ops[maker].writes) p.values[w.value].stored = false;
        p.ops[maker].placed = "at " + p.ops[reader].name;
        e.fuse_into(reader, maker, "with");
    }
    /// Gradients of one call over the same rows and of the same shape share a loop nest.
    void fuse_sibling(OpId s, const ir::ParamGrad &g) {
        auto &earlier = gradients[g.call];
        if (p.layer(g.call).nature != Nature::anchor && !g.accumulate)
            for (OpId t : earlier)
                if (const auto *other = ir::as<ir::ParamGrad>(p.ops[t]);
                    !other->accumulate && p.parameters[other->w].shape == p.parameters[g.w].shape) {
                    e.fuse_into(s, t, "with");
                    break;
                }
        earlier.push_back(s);
    }
    /// Fuses two operations as a line asks. False where neither reads the other: they are of other calls of the layers.
    bool place(ir::Line &l, OpId s, OpId t) {
        if (s == t) refuse(l, rules::same_stage, ".compute_root()");
        const OpId sum = sum_between(t, s);
        const bool before = e.feeds(s, t);
        if (!before && !e.feeds(t, s) && !(sum && l.how == ir::Line::with)) return false;
        // A rematerialised value may have readers in several kernels: then it is stored, at root.
        if (auto *f = ir::as<ir::Forward>(p.ops[s]); l.how == ir::Line::at && f && f->when == ir::Forward::remat)
            for (OpId r : e.readers(p.ops[s].writes[0].value))
                if (p.ops[r].kernel != p.ops[t].kernel) return true;
        // All operations that either has been fused with come along.
        const OpId first = before ? s : t, later = before ? t : s;
        const bool apart = p.ops[s].kernel != p.ops[t].kernel;
        if (apart && e.mate(first, Nature::anchor)) {
            if (e.mate(later, Nature::anchor)) refuse(l, rules::one_loop_nest, ".compute_root()");
            if (OpId norm = e.mate(later, Nature::rowwise))
                refuse(l, {rules::whole_rows, p.ops[norm].name}, ".compute_root()");
        }
        if (l.how == ir::Line::with && apart && !e.mate(first, Nature::anchor))
            if (OpId anchor = e.mate(later, Nature::anchor))
                refuse(l, {rules::prologue_is_not_stored, p.ops[anchor].name}, ".compute_root()");
        if (apart) check_fused(l, s, t);
        if (l.how == ir::Line::at) not_stored(l, s, t, first, later);
        e.fuse_into(s, t, l.how == ir::Line::at ? "at" : "with");
        if (sum) leave_unstored(sum, s);
        return true;
    }
    /// The addition of y + f(...), which no line can name, if it is in the kernel of f and another stage reads it.
    OpId sum_between(OpId f, OpId reader) const {
        for (OpId sum : e.mates(f))
            if (is_unnamed_sum(sum) && e.feeds(f, sum) && e.feeds(sum, reader)) return sum;
        return {};
    }
    bool is_unnamed_sum(OpId id) const {
        auto *f = ir::as<ir::Forward>(p.ops[id]);
        return f && p.is_sum(f->call) && p.graph.owns(p.source(f->call));
    }
    /// Leaves a sum unstored, if nobody reads it outside of its kernel.
    void leave_unstored(OpId sum, OpId reader) {
        const ValueId v = p.ops[sum].writes[0].value;
        const bool here =
            std::ranges::all_of(e.readers(v), [&](OpId r) { return p.ops[r].kernel == p.ops[sum].kernel; });
        if (!here || p.is_result(v) || later_reader(v)) return;
        p.values[v].stored = false;
        p.ops[sum].placed = "at " + p.ops[reader].name;
    }
    /// Refuses a line where one kernel cannot do what the two kernels do.
    void check_fused(ir::Line &l, OpId s, OpId t) const {
        if (OpId other = e.between(p.ops[s].kernel, p.ops[t].kernel))
            refuse(l, {rules::between, p.ops[other].name}, ".compute_root()");
        refuse_parts(l, e.mates(s), e.mates(t));
        refuse_parts(l, e.mates(t), e.mates(s));
        try {
            ir::kernel_ranks(p, both(s, t));
        } catch (const ir::RanksDiffer &d) {
            refuse(l, {rules::ranks_differ, d.op, d.value, d.here, d.there}, ".compute_root()");
        }
    }
    /// Refuses a line where one kernel makes the rows of a block, and the other reads those of all blocks.
    void refuse_parts(ir::Line &l, const std::vector<OpId> &makers, const std::vector<OpId> &readers) const {
        for (OpId maker : makers)
            for (OpId reader : readers)
                if (const ValueId v = e.overlap(maker, reader))
                    refuse(l, {rules::rows_of_blocks, p.chunks.rows, p.ops[reader].name, p.values[v].name},
                           ".compute_root()");
    }
    /// A value that is never stored may have no readers outside its kernel, except those that can compute it again.
    void not_stored(ir::Line &l, OpId s, OpId t, OpId first, OpId later) {
        // A product reads what comes before it many times, and cannot store it.
        const bool storable = e.mate(first, Nature::anchor) || !e.mate(later, Nature::anchor);
        const std::string nearest = storable ? l.placement(ir::Line::with) : l.placement(ir::Line::root);
        for (const ir::Ref &w : p.ops[s].writes) {
            if (p.is_result(w.value)) refuse(l, rules::result_is_stored, nearest);
            for (OpId r : e.readers(w.value))
                if (p.ops[r].kernel != p.ops[t].kernel && p.ops[r].kernel != p.ops[s].kernel)
                    refuse(l, {rules::read_elsewhere, p.ops[r].name}, nearest);
            if (OpId r = must_be_stored_for(s, w.value)) refuse(l, {rules::read_elsewhere, p.ops[r].name}, nearest);
            const OpId r = p.values[w.value].producer ? later_reader(w.value) : OpId();
            if (Reason why = r ? missing_source(r, w.value) : Reason()) refuse(l, why, l.placement(ir::Line::root));
            p.values[w.value].stored = false;
        }
    }
};

/// Names the layer within the target's that is next to the stage: `n.rescaled`, where a line names a BatchNorm `n`.
std::string neighbour_within(StepProgram &p, const ir::Line &l) {
    if (l.target.kind != ir::Stage::value && l.target.kind != ir::Stage::adjoint) return "";
    const std::string within = p.layers[l.target.layer].path + ".";
    for (const auto &[name, entry] : p.entries) {
        const EntryView e(p, name);
        for (OpId s : e.named(l.stage))
            for (OpId t : entry.ops)
                if (const auto c = ir::call_of(p.ops[t]); c && p.layer(*c).path.starts_with(within))
                    if (e.feeds(s, t) || e.feeds(t, s))
                        return fmt::format("; of the layers of '{}', '{}' does", l.target.text, p.ops[t].name);
    }
    return "";
}

bool of_layers(const ir::Line &l) { return l.stage.kind == ir::Stage::value || l.stage.kind == ir::Stage::adjoint; }

}  // namespace

void fuse(StepProgram &p, const Context &cx) {
    for (auto &[name, entry] : p.entries) {
        Fuse pass(p, name);
        if (cx.options.groups) pass.defaults();
        for (ir::Line &l : p.lines) {
            if (!of_layers(l) || !l.places() || p.chunks.takes(l)) continue;
            if (l.how == ir::Line::root)
                pass.keep(l);
            else
                pass.apply(l);
        }
    }
    for (ir::Line &l : p.lines) {
        if (!of_layers(l) || !l.places() || !l.open()) continue;
        if (p.chunks.takes(l))
            l.verdict = {.is = ir::Verdict::unneeded, .words = "one block holds all rows"};
        else if (const ir::Stage *none = without_adjoint(p, l))
            excuse(l, *none);
        else if (std::ranges::any_of(p.lines, [&](const ir::Line &own) { return places_call_of(own, l); }))
            l.verdict = {.is = ir::Verdict::unneeded, .words = "its calls have lines of their own"};
        else if (l.how == ir::Line::root)
            l.verdict = {.is = ir::Verdict::unneeded, .words = "it has a kernel of its own without the line too"};
        else
            obey(l, [&] {
                if (l.target.kind == ir::Stage::pass) refuse(l, rules::waits_for_pass, ".compute_root()");
                refuse(l, {rules::reads_nothing, neighbour_within(p, l)}, ".compute_root()");
            });
    }
}

}  // namespace cryolite::compiler
