#include "generators/kernel_outputs.h"

#include "generators/firm.h"
#include "generators/scatter.h"

namespace cryolite::compiler {

using namespace Halide;

namespace {

/// An element of a logical Func at storage indices; zero in the padding of a panel.
Expr at_storage(const Func &f, const Buffer &b, const std::vector<Var> &v) {
    std::vector<Expr> at = b.layout.to_logical(as_exprs(v));
    if (!b.layout.padded(b.shape)) return f(at);
    int d = b.layout.dim, n = b.shape[d];
    Expr inside = at[d] < n;
    at[d] = min(at[d], n - 1);
    return select(inside, f(at), cast(f.type(), 0));
}

}  // namespace

KernelOutputs::KernelOutputs(const StepProgram &p, const Kernel &k, KernelValues &values)
    : p(p), k(k), values(values), in(values.in) {
    for (int s : k.stages) store(p.stages[s]);
    if (list.empty()) fail("[{}] stores nothing", k.name);
}

void KernelOutputs::store(const StageSpec &s) {
    switch (s.part) {
    case Part::next: return update(s);
    case Part::norm: return norm(s);
    case Part::scale: return scale(s);
    case Part::d_parameter: return gradient(s);
    default: return value(s);
    }
}

void KernelOutputs::value(const StageSpec &s) {
    int b = s.writes[0];
    if (!p.buffers[b].stored) return;
    const Array &a = in.arrays.at(b);
    // A Func that leaves its pure definition undefined writes each element by its updates: it is the output.
    const Func stored = a.half.value_or(a);
    bool complete = s.part == Part::d_input && k.stages.size() == 1 && starts_undefined(stored);
    auto element = [stored](const std::vector<Var> &v) -> Expr { return stored(as_exprs(v)); };
    list.push_back({b, a.shape.extents(), element, complete ? stored : Func()});
}

void KernelOutputs::gradient(const StageSpec &s) {
    int id = s.writes[0];
    const Buffer &b = p.buffers[id];
    if (values.stage(Part::next, s.parameter) || !b.stored) return;
    std::vector<Var> v = storage_vars(b.storage().rank());
    Func f = in.arrays.at(id);
    KernelOutput o{id, b.storage().extents(), [f, &b](auto &v) { return at_storage(f, b, v); }};
    o.in_place = s.accumulate;
    if (is_scatter(f)) {
        o.whole = scatter_into_storage(f, b.layout, v, s.accumulate);
    } else if (s.accumulate) {
        o.whole = Func("sum");
        o.whole(v) = undef<float>();
        o.whole(v) = o.whole(as_exprs(v)) + at_storage(f, b, v);
    }
    list.push_back(o);
}

/// The gradient made in this kernel, with what earlier micro-batches and the embedding of a tied table add.
Expr KernelOutputs::gradient_in_update(const StageSpec &s, const std::vector<int> &extents, const std::vector<Var> &v) {
    int gradient = p.gradient_buffer.at(s.parameter);
    const Buffer &w = p.buffers[s.writes[0]];
    Expr g = at_storage(in.arrays.at(gradient), w, v);
    if (values.stage(Part::d_parameter, s.parameter)->accumulate)
        g = in.image(gradient, extents, "earlier")(as_exprs(v)) + g;
    if (auto rows = values.scattered.find(s.parameter); rows != values.scattered.end())
        g = scatter_into_panels(rows->second, w.layout, v, g)(as_exprs(v));
    return g;
}

/// The optimizer's rule, in place on the parameter and its states, over storage.
void KernelOutputs::update(const StageSpec &s) {
    const Buffer &w = p.buffers[s.writes[0]];
    int gradient = p.gradient_buffer.at(s.parameter);
    bool fused = in.arrays.count(gradient);
    std::vector<int> extents = w.storage().extents();
    if (!fused) extents = {int(s.worker >= 0 ? s.count : w.storage().size())};
    std::vector<Var> v = storage_vars(int(extents.size()));
    Func next("next");
    std::vector<Expr> nothing;
    for (int b : s.writes) nothing.push_back(undef(p.buffers[b].type));
    next(v) = Tuple(nothing);
    FuncRef old = next(v);
    const bool halves = p.remainder_buffer.count(s.parameter);
    auto element = [&](int j) -> Expr {
        if (s.writes.size() == 1) return old;
        return j == 0 && halves ? MasterExpr{old[0], old[int(s.writes.size()) - 1]}.whole() : Expr(old[j]);
    };
    Expr g;
    if (fused) g = gradient_in_update(s, extents, v);
    else if (auto shares = p.share_buffers.find(s.parameter); shares != p.share_buffers.end())
        for (int b : shares->second) {  // in the order of the workers
            Expr share = in.image(b, extents, fmt::format("g{}", p.buffers[b].worker))(as_exprs(v));
            g = g.defined() ? g + share : share;
        }
    else g = in.image(gradient, extents, "g")(as_exprs(v));
    if (s.scaled) g *= scale_word(0);
    std::vector<Expr> news = rule(s, element, g);
    // Withheld: every bit as it was.
    for (int j = 0; p.guarded() && j < int(news.size()); j++) news[j] = select(scale_word(1) > 0, news[j], element(j));
    if (halves) {
        MasterExpr split = MasterExpr::split(news[0]);
        news[0] = split.half;
        news.push_back(split.remainder);
    }
    next(v) = Tuple(news);
    for (int b : s.writes) list.push_back({b, extents, nullptr, next, true});
}

Expr KernelOutputs::norm_for_rule(const StageSpec &s, Norm::Of of) {
    const StepProgram::Norms &n = p.norms_of.at(s.parameter);
    Expr square = cast<double>(0);
    const int apart = p.norms_apart;
    if (of == Norm::weight) {
        for (int j = 0; j < n.weights; j++) square += in.slice(p.norms, n.weight, n.weights * apart, "weight_norm")(j * apart);
        return p.optimizer->once(sqrt(square));
    }
    for (int j = 0; j < n.count; j++) square += in.slice(p.norms, n.first, n.count * apart, "gradient_norm")(j * apart);
    Expr norm = sqrt(max(square, cast<double>(0)));
    return p.optimizer->once(s.scaled ? norm * cast<double>(scale_word(0)) : norm);
}

template <typename Element>
std::vector<Expr> KernelOutputs::rule(const StageSpec &s, const Element &element, const Expr &g) {
    Optimizer &o = *p.optimizer;
    o.decays = s.parameter->shape().rank() > 1;
    o.step = p.guarded() ? cast<double>(in.image(p.count, {2}, "count")(0)) : values.scalar(0);
    for (int j = 0; j < int(o.scalars().size()); j++) o.scalars()[j]->exact = values.scalar(3 + j);
    for (int j = 0; j < int(o.states().size()); j++) o.states()[j]->now = element(j + 1);
    for (Norm *n : o.norms()) n->now = norm_for_rule(s, n->of);
    std::vector<Expr> news = {o(element(0), g)};
    for (const State *state : o.states()) news.push_back(state->now);
    // The same bits wherever the rule is placed: no multiply-add made here and not there.
    for (Expr &e : news) e = firm(e);
    return news;
}

void KernelOutputs::norm(const StageSpec &s) {
    Func norm;
    if (ghost(s)) {
        norm = values.ghost_norms.at(&s);
        const bool bounded = s.bounded;  // of elements that are floats
        list.push_back({p.norms, {1}, [norm, bounded](auto &v) -> Expr {
            return bounded ? cast<double>(cast<float>(norm(v[0]))) : Expr(norm(v[0])); }, {}, false, s.index});
        return;
    }
    int of = s.of_weight ? p.parameter_buffer.at(s.parameter) : p.gradient_buffer.at(s.parameter);
    int n = int(s.worker >= 0 ? s.count : p.buffers[of].storage().size());
    Func g = in.image(of, {n}, "g");
    if (auto lower = p.remainder_buffer.find(s.parameter); s.of_weight && lower != p.remainder_buffer.end()) {
        Func rest = in.image(lower->second, {n}, "remainder"), whole("whole");
        Var i("i");
        whole(i) = MasterExpr{g(i), rest(i)}.whole();
        g = whole;
    }
    norm = Func("norm");
    RDom i(0, n, "i");
    Var u("u");
    norm(u) += g(i) * g(i);
    list.push_back({p.norms, {1}, [norm](auto &v) -> Expr { return cast<double>(norm(v[0])); }, {}, false, s.index});
    values.defined.push_back({&s, norm});
}

/// min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; guarded, also whether the norm is finite, and
/// the updates done and withheld.
void KernelOutputs::scale(const StageSpec &s) {
    int n = p.gradient_norms;
    Func square("square"), scale("scale");
    RDom i(0, n, "i");
    Var u("u");
    square(u) += in.image(p.norms, {n}, "norms")(i);
    scale(u) = cast<float>(min(cast<double>(1), values.scalar(2) / (sqrt(max(square(u), cast<double>(0))) + Expr(1e-6))));
    if (!p.guarded()) {
        list.push_back({p.scale, {1}, [scale](auto &v) -> Expr { return scale(v[0]); }});
        return;
    }
    // Of bits as they are stored: the compiler takes what it has computed itself for finite.
    Expr bits = reinterpret<uint64_t>(in.image(p.norms, {n}, "norms")(i));
    Func infinite("infinite"), next("next");
    infinite(u) += cast<int32_t>(((bits >> 52) & cast<uint64_t>(0x7ff)) == 0x7ff);
    Expr finite = infinite(0) == 0;
    next(u) = Tuple(undef<float>(), undef<int32_t>());
    next(u) = Tuple(select(u == 0, s.scaled ? scale(0) : cast<float>(1), cast<float>(finite)),
                    next(u)[1] + cast<int32_t>(finite == (u == 0)));
    for (int b : {p.scale, p.count}) list.push_back({b, {2}, nullptr, next, true});
}

}  // namespace cryolite::compiler
