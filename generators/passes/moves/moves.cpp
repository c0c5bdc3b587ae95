#include "generators/passes/moves/moves.h"

#include <algorithm>
#include <ranges>
#include <typeindex>

#include "dsl/layers/linear.h"
#include "schedules/group.h"

namespace cryolite::compiler {

namespace {

class Fusions {
public:
    Fusions(StepProgram &p, const std::string &entry, std::vector<Move> &list)
        : p(p), e(p, entry), list(list), read_later(size_t(p.values.size())) {
        for (const auto &[name, other] : p.entries)
            for (OpId id : other.ops)
                if (name != entry && ir::in_backward(p.ops[id]))
                    for (const ir::Ref &r : p.ops[id].reads) read_later[size_t(p.base(r.value).index)] = true;
    }
    /// Proposes fusions with the latest operations first: all else that their readers read has been computed by then.
    void run() {
        for (OpId id : e.entry.ops | std::views::reverse)
            if (is_of_layer(id) && !p.ops[id].writes.empty()) with_readers(id, p.ops[id].writes[0].value);
    }

private:
    StepProgram &p;
    EntryView e;
    std::vector<Move> &list;
    std::vector<bool> read_later;  ///< by value: in the backward pass of another entry

    /// Whether an operation makes a value or an adjoint.
    bool is_of_layer(OpId id) const {
        const ir::Op &op = p.ops[id];
        auto *f = ir::as<ir::Forward>(op);
        return (f && f->when == ir::Forward::in_forward) || ir::is<ir::InputGrad>(op) || ir::is<ir::AddAdjoints>(op);
    }
    std::optional<Stage> stage(OpId id) const { return stage_of(p, e, id); }
    static bool is_cheap(Nature n) { return n == Nature::pointwise || n == Nature::sum; }
    bool is_pointwise(KernelId k) const {
        return std::ranges::all_of(p.kernels[k].ops,
                                   [&](OpId id) { return is_of_layer(id) && is_cheap(p.nature(p.ops[id])); });
    }
    /// Whether the program has written loops of its own for a kernel, which expect the operations that are in it now.
    bool has_own_loops(KernelId k) const {
        const OpId anchor = p.kernels[k].anchor;
        if (!anchor || !ir::call_of(p.ops[anchor])) return false;
        const Layer &layer = p.source(*ir::call_of(p.ops[anchor]));
        const Form form = ir::is<ir::Forward>(p.ops[anchor]) ? Form::forward : Form::d_input;
        return p.schedule->loops_of.count({std::type_index(typeid(layer)), form}) > 0;
    }
    bool has_layers_alone(KernelId k) const {
        return std::ranges::all_of(p.kernels[k].ops, [&](OpId id) { return is_of_layer(id); });
    }
    /// Whether the reader's kernel may go into the kernel of the writer.
    bool is_epilogue(OpId writer, OpId reader) const {
        const KernelId from = p.ops[writer].kernel, to = p.ops[reader].kernel;
        return is_pointwise(to) && has_layers_alone(from) && !has_own_loops(from);
    }

    /// The readers in other kernels, one for each kernel.
    std::vector<OpId> readers_elsewhere(OpId id, ValueId v) const {
        std::vector<OpId> readers;
        std::set<KernelId> met = {p.ops[id].kernel};
        for (OpId r : e.readers(v))
            if (met.insert(p.ops[r].kernel).second) readers.push_back(r);
        return readers;
    }
    /// Whether a reader reads only parts of a value. No line can fuse the two: the layer that takes a part is between.
    bool reads_part(OpId reader, ValueId v) const {
        return std::ranges::find(p.ops[reader].reads, v, &ir::Ref::value) == p.ops[reader].reads.end();
    }
    void with_readers(OpId id, ValueId v) {
        const ir::Value &value = p.values[v];
        if (!value.stored || value.part_of || value.role != ir::Role::activation) return;
        const std::vector<OpId> readers = readers_elsewhere(id, v);
        const std::optional<Stage> own = stage(id);
        if (!own) return with_readers_of_sum(id, v, readers);
        const bool all = !readers.empty() &&
                         std::ranges::all_of(readers, [&](OpId r) { return !reads_part(r, v) && is_epilogue(id, r); });
        if (all && stage(readers.back()) && !p.is_result(v) && !read_later[size_t(v.index)])
            return add_inside(*own, readers, value.bytes());
        for (OpId r : readers) {
            const std::optional<Stage> other = reads_part(r, v) ? std::nullopt : stage(r);
            if (!other) continue;
            if (is_epilogue(id, r))
                list.push_back({{{*other, {Placement::with, *own}}}, value.bytes(), true});
            else if (readers.size() == 1 && is_pointwise(p.ops[id].kernel) && has_layers_alone(p.ops[r].kernel))
                list.push_back({{{*own, {Placement::at, *other}}}, 2 * value.bytes(), false});
        }
    }
    /// No line can name this sum. But a line can name the operation of its kernel that makes one of its terms.
    void with_readers_of_sum(OpId sum, ValueId v, const std::vector<OpId> &readers) {
        if (!ir::is<ir::Forward>(p.ops[sum])) return;
        for (OpId maker : e.mates(sum)) {
            const std::optional<Stage> into = e.feeds(maker, sum) ? stage(maker) : std::nullopt;
            if (!into) continue;
            for (OpId r : readers)
                if (const std::optional<Stage> other = stage(r); other && !reads_part(r, v) && is_epilogue(sum, r))
                    list.push_back({{{*other, {Placement::with, *into}}}, p.values[v].bytes(), true});
            return;
        }
    }
    /// Proposes that all readers of a value go into its kernel, so that the value is never stored.
    void add_inside(const Stage &own, const std::vector<OpId> &readers, int64_t bytes) {
        Move m{.lines = {}, .bytes = bytes * (1 + int64_t(readers.size())), .is_epilogue = true};
        for (size_t i = 0; i + 1 < readers.size(); i++)
            if (const std::optional<Stage> other = stage(readers[i]))
                m.lines.push_back({*other, {Placement::with, own}});
        m.lines.push_back({own, {Placement::at, *stage(readers.back())}});
        list.push_back(m);
    }
};

}  // namespace

std::optional<Stage> stage_of(const StepProgram &p, const EntryView &e, OpId id) {
    auto named = [&](CallId c) { return !p.graph.owns(as_written(p.source(c))) && !p.chunks.calls.count(c); };
    const auto of_call = [&](Stage stage, CallId c) {
        const auto [number, calls] = p.number_of(c);
        return calls > 1 ? stage[number] : stage;
    };
    if (auto *f = ir::as<ir::Forward>(p.ops[id]))
        return named(f->call) ? std::optional(of_call(as_written(p.source(f->call)), f->call)) : std::nullopt;
    if (auto *g = ir::as<ir::ParamGrad>(p.ops[id])) return d(p.source(g->w));
    const ValueId dy = p.ops[id].writes[0].value;
    for (OpId r : e.readers(dy))
        if (auto use = ir::use_of(p.ops[r]); use && use->dy == dy && named(use->call))
            return of_call(d(as_written(p.source(use->call))), use->call);
    return std::nullopt;
}

std::vector<Move> fusions_of(StepProgram &p) {
    std::vector<Move> list;
    for (const char *entry : {entry::forward, p.backward_entry()})
        if (p.entries.count(entry)) Fusions(p, entry, list).run();
    std::ranges::stable_sort(list, std::greater(), &Move::bytes);
    return list;
}

std::string text_of(const Move &m) {
    std::string text;
    for (const auto &[stage, place] : m.lines)
        text += fmt::format("{}s({}){}", text.empty() ? "" : "; ", stage.str(), place.line());
    return text;
}

}  // namespace cryolite::compiler
