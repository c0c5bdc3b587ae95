#include "generators/ir/program.h"

#include <algorithm>

namespace cryolite::ir {

namespace {
/// For std::visit: a function of several overloads.
template <typename... F> struct Cases : F... { using F::operator()...; };
template <typename... F> Cases(F...) -> Cases<F...>;
template <typename... F> auto match(const Op &op, F... cases) { return std::visit(Cases<F...>{cases...}, op.kind); }
}  // namespace

std::string DataType::str() const {
    static const char *kinds[] = {"int", "uint", "float", "bfloat"};
    return kinds[kind] + std::to_string(bits);
}

const char *kind_name(const Op &op) {
    static const char *names[] = {"forward", "input-grad", "param-grad", "add-adjoints", "norm",
                                  "scale",   "update",     "reduce",     "next-state",   "loss-scale"};
    return names[op.kind.index()];
}

std::optional<CallId> call_of(const Op &op) {
    if (auto *f = as<Forward>(op)) return f->call;
    if (auto *n = as<NextState>(op)) return n->call;
    if (auto use = use_of(op)) return use->call;
    return std::nullopt;
}

std::optional<Use> use_of(const Op &op) {
    using Found = std::optional<Use>;
    return match(
        op,
        [](const InputGrad &g) -> Found {
            return Use{g.call, g.dy};
        },
        [](const ParamGrad &g) -> Found {
            return Use{g.call, g.dy};
        },
        [](const Norm &n) -> Found {
            if (auto *gram = std::get_if<Gram>(&n.how)) return gram->a;
            if (auto *bound = std::get_if<CauchySchwarzBound>(&n.how)) return bound->of;
            return std::nullopt;
        },
        [](const auto &) -> Found { return std::nullopt; });
}

ParamId parameter_of(const Op &op) {
    return match(
        op, [](const ParamGrad &o) { return o.w; }, [](const Norm &o) { return o.w; },
        [](const Update &o) { return o.w; }, [](const Reduce &o) { return o.w; },
        [](const NextState &o) { return o.states.front(); }, [](const auto &) { return ParamId(); });
}

std::span<const ValueId> addends_of(const Op &op) {
    if (auto *g = as<InputGrad>(op)) return g->addends;
    if (auto *s = as<AddAdjoints>(op)) return s->addends;
    return {};
}

Shard shard_of(const Op &op) {
    if (auto *n = as<Norm>(op)) return n->shard;
    if (auto *u = as<Update>(op)) return u->shard;
    if (auto *r = as<Reduce>(op)) return r->shard;
    if (auto *n = as<NextState>(op)) return n->shard;
    return {};
}

bool in_backward(const Op &op) {
    auto *f = as<Forward>(op);
    return !f || f->when != Forward::in_forward;
}

bool writes(const Op &op, ValueId v) {
    return std::ranges::any_of(op.writes, [&](const Ref &r) { return r.value == v; });
}

void for_each_value(Op &op, const std::function<void(ValueId &)> &change) {
    for (auto *list : {&op.reads, &op.writes})
        for (Ref &r : *list) change(r.value);
    auto all = [&](std::vector<ValueId> &list) { std::ranges::for_each(list, change); };
    std::visit(Cases{[&](InputGrad &g) { change(g.dy), all(g.addends); }, [&](ParamGrad &g) { change(g.dy); },
                     [&](AddAdjoints &s) { change(s.of), all(s.addends); },
                     [&](Norm &n) {
                         if (auto *gram = std::get_if<Gram>(&n.how)) change(gram->a.dy), change(gram->b.dy);
                         if (auto *bound = std::get_if<CauchySchwarzBound>(&n.how)) change(bound->of.dy);
                     },
                     [](auto &) {}},
               op.kind);
}

bool Layer::factors(ParamId w) const { return std::ranges::count(factored, w) > 0; }

std::string Line::placement(How other) const {
    switch (other) {
    case root:
        return ".compute_root()";
    case at:
        return ".compute_at(" + target.text + (rows ? ", " + std::to_string(rows) : "") + ")";
    case with:
        return ".compute_with(" + target.text + ")";
    case store:
        return ".store_at(forward)";
    case dialect:
        return ".dialect(" + dialect_name + ")";
    case distribute:
        return ".distribute(workers)";
    case freeze:
        return ".freeze()";
    }
    return "?";
}

void Line::met(OpId by) {
    if (!left_out()) verdict.is = Verdict::legal;
    if (!std::ranges::count(verdict.by, by)) verdict.by.push_back(by);
}

std::pair<int, int> Program::number_of(CallId c) const {
    std::pair<int, int> number;
    for (CallId other : calls.ids()) {
        if (calls[other].layer != calls[c].layer || chunks.calls.count(other)) continue;
        number.second++;
        if (other == c) number.first = number.second;
    }
    return number;
}

std::vector<ParamId> Program::trained() const {
    std::vector<ParamId> list;
    for (ParamId w : parameters.ids())
        if (parameters[w].trained()) list.push_back(w);
    return list;
}

Nature Program::nature(const Op &op) const {
    // The gradient of an input that is the same for all rows is a sum over the rows.
    if (auto *g = as<InputGrad>(op); g && !calls[g->call].has_rows[size_t(g->input)]) return Nature::anchor;
    if (is<Forward>(op) || is<InputGrad>(op)) return layer(*call_of(op)).nature;
    return is<ParamGrad>(op) || is<Norm>(op) || is<NextState>(op) ? Nature::anchor : Nature::pointwise;
}

void number_versions(Program &p, Entry &e) {
    std::map<ValueId, int> now;
    for (OpId id : e.ops) {
        Op &op = p.ops[id];
        for (Ref &r : op.reads)
            if (p.values[r.value].is_state()) r.version = now[r.value];
        for (Ref &w : op.writes)
            if (p.values[w.value].is_state()) w.version = ++now[w.value];
    }
}

}  // namespace cryolite::ir
