// The result of a reshape, or of a slice along the outermost dimension, has elements that lie one after the other in
// the operand. So it is a view, which shares the operand's array, and no kernel copies it. The same holds for their
// adjoints. Where slices make up the whole of a value, their adjoints are written to their places in the value's
// adjoint. A result that cannot be a view stays a copy, and says why.

#include <algorithm>
#include <optional>
#include <typeinfo>

#include "dsl/layers/reshape.h"
#include "dsl/tensor.h"
#include "generators/passes/legality.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// A layer of exactly this type; null otherwise, as a derived layer may compute something else.
template <typename L> const L *exactly(const Layer &layer) {
    return typeid(layer) == typeid(L) ? static_cast<const L *>(&layer) : nullptr;
}

/// How many elements one index of a dimension has; none: they do not lie one after the other.
std::optional<int64_t> elements_of_index(const Shape &whole, int dim) {
    int64_t inner = 1;
    for (int d = 0; d < whole.rank(); d++)
        if (d < dim)
            inner *= whole[d];
        else if (d > dim && whole[d] != 1)
            return std::nullopt;
    return inner;
}

/// Whether a call's result is a contiguous part of one of its inputs, or the input a contiguous part of the result.
struct Overlay {
    bool result_in_input, input_in_result;
    int64_t begin = 0;  ///< elements of the whole before the part
};
std::optional<Overlay> overlay(const StepProgram &p, CallId c, int input) {
    const Layer &layer = p.source(c);
    const ir::Call &call = p.calls[c];
    if (exactly<Reshape>(layer) || exactly<Flatten>(layer) || exactly<Copy>(layer) || exactly<StopGradient>(layer))
        return Overlay{true, true};
    if (const auto *slice = exactly<Slice>(layer))
        if (const auto each = elements_of_index(p.values[call.inputs[0]].shape, slice->dim))
            return Overlay{true, false, slice->begin * *each};
    if (const auto *concat = exactly<Concat>(layer))
        if (const auto each = elements_of_index(p.values[call.output].shape, concat->dim))
            return Overlay{false, true, concat->begin(input) * *each};
    return std::nullopt;
}

class MakeViews {
public:
    explicit MakeViews(StepProgram &p)
        : p(p), writers(size_t(p.values.size())), readers(writers.size()), late(writers.size()),
          result(writers.size()) {
        for (const auto &[name, entry] : p.entries) {
            for (OpId id : entry.ops) note(id);
            for (ValueId v : entry.results) result[at(v)] = true;
        }
        for (ValueId v : p.values.ids())
            if (p.is_result(v)) result[at(v)] = true;
        for (ValueId v : p.evaluation.terms) result[at(v)] = true;
        if (p.evaluation.loss) result[at(p.evaluation.loss)] = true;
    }
    void run() {
        std::vector<std::pair<ValueId, View>> whole, parts;
        for (int i = p.values.size(); i-- > 0;)
            if (const auto view = view_of(ValueId(i)))
                (size(ValueId(i)) == size(view->source) ? whole : parts).emplace_back(ValueId(i), *view);
        for (const auto &[name, entry] : p.entries)
            for (OpId id : entry.ops) explain_inner(id);
        for (const auto &[v, view] : whole) place(v, view, {});
        for (const auto &[v, view] : parts) place(v, view, parts);
        for (int i = p.values.size(); i-- > 0;) write_in_parts(ValueId(i));
        for (auto &[name, entry] : p.entries) std::erase_if(entry.ops, [&](OpId id) { return gone.count(id) > 0; });
    }

private:
    struct View {
        ValueId source;
        int64_t begin;
        bool operator==(const View &) const = default;
    };
    using Views = std::vector<std::pair<ValueId, View>>;

    StepProgram &p;
    std::vector<std::vector<OpId>> writers, readers;  ///< by value, of all entries
    std::vector<bool> late;                           ///< by value: the backward pass reads it
    std::vector<bool> result;                         ///< by value: the runtime reads it
    std::set<OpId> gone;

    static size_t at(ValueId v) { return size_t(v.index); }
    int64_t size(ValueId v) const { return p.values[v].shape.size(); }
    void note(OpId id) {
        const ir::Op &op = p.ops[id];
        for (const ir::Ref &w : op.writes) writers[at(w.value)].push_back(id);
        for (const ir::Ref &r : op.reads) {
            readers[at(r.value)].push_back(id);
            if (ir::in_backward(op)) late[at(r.value)] = late[at(p.base(r.value))] = true;
        }
    }
    bool reads(OpId id, ValueId v) const {
        return std::ranges::find(p.ops[id].reads, v, &ir::Ref::value) != p.ops[id].reads.end();
    }
    void drop(OpId id) {
        gone.insert(id);
        std::erase(p.kernels[p.ops[id].kernel].ops, id);
    }
    void keep(OpId id, const Reason &why) {
        ir::Op &op = p.ops[id];
        if (op.why.empty()) op.why = why.words, op.rule = why.rule;
    }

    void explain_inner(OpId id) {
        auto *f = ir::as<ir::Forward>(p.ops[id]);
        if (f && exactly<Slice>(p.source(f->call)) && !overlay(p, f->call, 0))
            keep(id, {rules::view_apart, p.values[p.calls[f->call].inputs[0]].name});
    }
    /// The value that an operation's result could be a part of, and where it would begin there.
    std::optional<View> view_by(const ir::Op &op) const {
        if (auto *f = ir::as<ir::Forward>(op)) {
            const auto o = overlay(p, f->call, 0);
            if (o && o->result_in_input) return View{p.operand(op, p.calls[f->call].inputs[0]), o->begin};
        }
        if (auto *g = ir::as<ir::InputGrad>(op); g && g->addends.empty()) {
            const auto o = overlay(p, g->call, g->input);
            if (o && o->input_in_result) return View{g->dy, o->begin};
        }
        return std::nullopt;
    }
    /// Whether an operation's kernel can do without it: its other operations then read the result as a part of an array
    /// that is stored before the kernel begins.
    bool can_leave(OpId id, const View &view) const {
        const auto &mates = p.kernels[p.ops[id].kernel].ops;
        if (mates.size() == 1) return true;
        const ValueId v = p.ops[id].writes[0].value;
        auto others = [&](const auto &does) {
            return std::ranges::any_of(mates, [&](OpId other) { return other != id && does(other); });
        };
        const bool made_here = others([&](OpId other) {
            return std::ranges::any_of(p.ops[other].writes,
                                       [&](const ir::Ref &w) { return p.base(w.value) == p.base(view.source); });
        });
        const bool read_here = others([&](OpId other) { return reads(other, v); });
        return p.nature(p.ops[id]) == Nature::pointwise && !(made_here && read_here);
    }
    std::optional<View> view_of(ValueId v) const {
        const ir::Value &value = p.values[v];
        if (value.role != ir::Role::activation || !value.stored || value.part_of || result[at(v)]) return std::nullopt;
        std::optional<View> view;
        for (OpId id : writers[at(v)]) {
            const auto by = view_by(p.ops[id]);
            if (!by || (view && *view != *by) || !can_leave(id, *by)) return std::nullopt;
            view = by;
        }
        if (!view) return view;
        const ir::Value &source = p.values[view->source], &whole = p.values[p.base(view->source)];
        const bool kept = source.stored && whole.stored;
        const bool of_model = whole.role == ir::Role::activation || whole.role == ir::Role::input;
        return kept && of_model ? view : std::nullopt;
    }

    Reason why_apart(ValueId v, const View &view) const {
        return why_apart(v, p.base(view.source), p.values[view.source].begin + view.begin);
    }
    Reason why_apart(ValueId part, ValueId whole, int64_t begin) const {
        const ir::Value &v = p.values[part], &w = p.values[whole];
        if (v.type != w.type) return {rules::view_format, v.type.str(), w.name, w.type.str()};
        const int64_t first = begin * v.type.bytes(), alignment = p.schedule->machine.alignment;
        if (first % alignment) return {rules::view_begins, first, w.name, alignment};
        return {};
    }
    /// A part that the backward pass reads keeps the whole array alive until then. That is worth it where the whole is
    /// kept anyway, or where such parts make up all of it.
    Reason why_short_lived(ValueId v, ValueId whole, const Views &parts) const {
        auto *f = ir::as<ir::Forward>(p.ops[writers[at(v)][0]]);
        const bool made_forward = f && f->when == ir::Forward::in_forward;
        if (!made_forward || p.values[whole].role != ir::Role::activation || !late[at(v)] || late[at(whole)]) return {};
        int64_t kept = 0;
        for (const auto &[other, view] : parts)
            if (p.base(view.source) == whole && late[at(other)] && !why_apart(other, view)) kept += size(other);
        return kept < size(whole) ? Reason{rules::view_keeps, p.values[whole].name} : Reason{};
    }
    /// Makes a value a view, or notes why it is a copy. `parts`: all values that could be views of less than the whole.
    void place(ValueId v, const View &view, const Views &parts) {
        const ValueId whole = p.base(view.source);
        Reason why = why_apart(v, view);
        if (!why && !parts.empty()) why = why_short_lived(v, whole, parts);
        for (OpId id : writers[at(v)])
            if (why)
                keep(id, why);
            else
                drop(id);
        if (!why) put(v, whole, p.values[view.source].begin + view.begin);
    }
    /// Makes a value a part of another, together with the parts of that value.
    void put(ValueId part, ValueId whole, int64_t begin) {
        for (ValueId v : p.values.ids())
            if (p.values[v].part_of == part) become_part(p, v, whole, p.values[v].begin + begin);
        become_part(p, part, whole, begin);
        if (late[at(part)]) late[at(whole)] = true;
    }

    /// An adjoint of a slice, and where it belongs in the adjoint of the whole.
    struct Piece {
        OpId by;  ///< the operation that copies it into an array of the whole's size, and adds the pieces before it
        ValueId array;
        int64_t begin;
    };
    /// Whether this operation is the only reader of a value, apart from operations that are gone.
    bool read_by_alone(ValueId v, OpId id) const {
        return std::ranges::all_of(readers[at(v)], [&](OpId r) { return r == id || gone.count(r); });
    }
    /// The piece that an operation copies, if nothing else reads the piece's array, so that it can be anywhere.
    std::optional<Piece> piece(OpId id) const {
        auto *g = ir::as<ir::InputGrad>(p.ops[id]);
        if (!g || g->addends.size() > 1 || p.kernels[p.ops[id].kernel].ops.size() > 1) return std::nullopt;
        const auto o = overlay(p, g->call, g->input);
        const ValueId array = p.base(g->dy);
        const ir::Value &v = p.values[array];
        const bool is_slice = o && o->result_in_input && !o->input_in_result;
        if (!is_slice || v.role != ir::Role::activation || !v.stored || result[at(array)]) return std::nullopt;
        const bool own = size(array) == size(g->dy) && read_by_alone(array, id) && read_by_alone(g->dy, id);
        return own ? std::optional(Piece{id, array, o->begin}) : std::nullopt;
    }
    /// The pieces that add up to an adjoint and do not overlap; empty: it is no sum of such pieces.
    std::vector<Piece> pieces_of(ValueId whole) const {
        std::vector<Piece> list;
        for (ValueId sum = whole; sum;) {
            if (writers[at(sum)].size() != 1) return {};
            const auto one = piece(writers[at(sum)][0]);
            if (!one) return {};
            list.push_back(*one);
            const std::vector<ValueId> &before = ir::as<ir::InputGrad>(p.ops[one->by])->addends;
            sum = before.empty() ? ValueId() : before[0];
            if (sum && (!read_by_alone(sum, one->by) || p.values[sum].part_of)) return {};
        }
        std::ranges::sort(list, {}, &Piece::begin);
        int64_t end = 0;
        for (const Piece &one : list) {
            if (one.begin != end) return {};
            end += size(one.array);
        }
        return end == size(whole) ? list : std::vector<Piece>();
    }
    void write_in_parts(ValueId sum) {
        const ir::Value &value = p.values[sum];
        if (value.role != ir::Role::activation || !value.stored) return;
        const std::vector<Piece> list = pieces_of(sum);
        const ValueId whole = p.base(sum);
        for (const Piece &one : list)
            if (const Reason why = why_apart(one.array, whole, value.begin + one.begin)) return keep(one.by, why);
        for (const Piece &one : list) put(one.array, whole, value.begin + one.begin), drop(one.by);
    }
};

}  // namespace

void make_views(StepProgram &p, const Context &cx) {
    if (cx.options.views) MakeViews(p).run();
}

}  // namespace cryolite::compiler
