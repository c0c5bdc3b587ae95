#include "generators/lowering/kernel/kernel_outputs.h"

#include <algorithm>

#include "bundle/loss_scale.h"
#include "generators/lowering/expressions/strict_arithmetic.h"
#include "generators/lowering/expressions/scatter.h"

namespace cryolite::compiler {

using namespace Halide;

namespace {

/// An element of a logical Func at storage indices; zero in the padding of a panel.
Expr at_storage(const Func &f, const ir::Value &b, const std::vector<Var> &v) {
    std::vector<Expr> at = b.layout.to_logical(as_exprs(v));
    if (!b.layout.padded(b.shape)) return f(at);
    int d = b.layout.dim, n = b.shape[d];
    Expr inside = at[d] < n;
    at[d] = min(at[d], n - 1);
    return select(inside, f(at), cast(f.type(), 0));
}

}  // namespace

KernelOutputs::KernelOutputs(const StepProgram &p, const ir::Kernel &k, KernelValues &values)
    : p(p), k(k), values(values), in(values.in) {
    if (p.joins_updates(k))  // the loop of the first update runs over the joint arrays of all
        store(p.ops[k.ops[0]]);
    else
        for (OpId id : k.ops) store(p.ops[id]);
    if (list.empty()) fail("[{}] stores nothing", k.name);
}

void KernelOutputs::store(const ir::Op &op) {
    if (auto *u = ir::as<ir::Update>(op))
        update(op, *u);
    else if (auto *n = ir::as<ir::Norm>(op))
        norm(op, *n);
    else if (auto *s = ir::as<ir::GradientScale>(op))
        scale(*s);
    else if (ir::is<ir::NextLossScale>(op))
        next_loss_scale(op);
    else if (auto *n = ir::as<ir::NextState>(op))
        next_state(op, *n);
    else if (auto *g = ir::as<ir::ParamGrad>(op))
        gradient(op, *g);
    else
        value(op);
}

void KernelOutputs::value(const ir::Op &op) {
    const ValueId v = op.writes[0].value;
    if (!p.values[v].stored) return;
    const Array &a = in.arrays.at(v);
    // A Func that leaves its pure definition undefined writes each element by its updates: it is the output.
    const Func stored = a.half.value_or(a);
    bool complete = ir::is<ir::InputGrad>(op) && k.ops.size() == 1 && starts_undefined(stored);
    auto element = [stored](const std::vector<Var> &at) -> Expr { return stored(as_exprs(at)); };
    list.push_back({v, a.shape.extents(), element, complete ? stored : Func()});
}

void KernelOutputs::gradient(const ir::Op &op, const ir::ParamGrad &g) {
    const ValueId id = op.writes[0].value;
    const ir::Value &b = p.values[id];
    if (values.find<ir::Update>(g.w) || !b.stored) return;
    std::vector<Var> v = storage_vars(b.storage().rank());
    Func f = in.arrays.at(id);
    KernelOutput o{id, b.storage().extents(), [f, &b](auto &v) { return at_storage(f, b, v); }};
    o.in_place = g.accumulate;
    if (is_scatter(f, b.layout)) {
        o.whole = scatter_into_storage(f, b.layout, v, g.accumulate);
    } else if (g.accumulate) {
        o.whole = Func("sum");
        o.whole(v) = undef<float>();
        o.whole(v) = o.whole(as_exprs(v)) + at_storage(f, b, v);
    }
    list.push_back(o);
}

/// The gradient made in this kernel, with what earlier micro-batches and the embedding of a tied table add.
Expr KernelOutputs::gradient_in_update(ParamId id, const std::vector<int> &extents, const std::vector<Var> &v) {
    const ir::Parameter &w = p.parameters[id];
    const ir::Value &stored = p.values[w.value];
    Expr g = at_storage(in.arrays.at(w.gradient), stored, v);
    if (values.find<ir::ParamGrad>(id)->accumulate) g = in.image(w.gradient, extents, "earlier")(as_exprs(v)) + g;
    if (auto rows = values.scattered.find(id); rows != values.scattered.end())
        g = scatter_into_panels(rows->second, stored.layout, v, g)(as_exprs(v));
    return g;
}

Expr KernelOutputs::whole_gradient(const ir::Update &u, const std::vector<int> &extents, const std::vector<Var> &v) {
    const ir::Parameter &w = p.parameters[u.w];
    if (in.arrays.count(w.gradient)) return gradient_in_update(u.w, extents, v);
    if (w.shares.empty()) return in.image(array(w.gradient), extents, "g")(as_exprs(v));
    // The same order as the runtime's: the sum of the first half of the workers plus the sum of the second half.
    const std::function<Expr(size_t, size_t)> sum = [&](size_t first, size_t count) -> Expr {
        const size_t half = count / 2;
        if (count > 1) return sum(first, half) + sum(first + half, count - half);
        const ValueId share = w.shares[first];
        return in.image(share, extents, fmt::format("g{}", p.values[share].worker))(as_exprs(v));
    };
    return sum(0, w.shares.size());
}

/// The elements of a Tuple are stored one after the other. Halide computes all of them first only where it sees that
/// one reads another that is stored before it. It does not look into calls, of which strict arithmetic is made. So a
/// select beside the calls shows the read to Halide; simplification drops the select later.
static void show_reads_of_stored(std::vector<Expr> &news, const FuncRef &old) {
    for (int j = 1; j < int(news.size()); j++)
        for (int i = 0; i < j; i++) {
            const Expr stored = old[i];
            if (!Internal::substitute(stored, Internal::make_zero(stored.type()), news[j]).same_as(news[j]))
                news[j] = select(stored == stored, news[j], Internal::make_zero(news[j].type()));
        }
}

/// The optimizer's rule, in place on the parameter and its states, over storage.
void KernelOutputs::update(const ir::Op &op, const ir::Update &u) {
    const ir::Parameter &w = p.parameters[u.w];
    const Shape storage = p.values[array(w.value)].storage();
    std::vector<int> extents = storage.extents();
    if (!in.arrays.count(w.gradient)) extents = {int(u.shard.worker >= 0 ? u.shard.count : storage.size())};
    std::vector<Var> v = storage_vars(int(extents.size()));
    Func next("next");
    std::vector<Expr> nothing;
    for (const ir::Ref &r : op.writes) nothing.push_back(undef(halide_type(p.values[r.value].type)));
    next(v) = Tuple(nothing);
    FuncRef old = next(v);
    auto element = [&](int j) -> Expr {
        if (op.writes.size() == 1) return old;
        return j == 0 && w.master ? MasterExpr{old[0], old[int(op.writes.size()) - 1]}.whole() : Expr(old[j]);
    };
    Expr g = whole_gradient(u, extents, v);
    if (u.scaled) g *= scale_word(0);
    std::vector<Expr> news = rule(u, element, g);
    // An update that is withheld leaves every bit as it was.
    for (int j = 0; p.guarded && j < int(news.size()); j++) news[j] = select(scale_word(1) > 0, news[j], element(j));
    if (w.master) {
        MasterExpr split = MasterExpr::split(news[0], halide_type(p.values[w.value].type));
        news[0] = split.narrow;
        news.push_back(split.rest);
    }
    show_reads_of_stored(news, old);
    next(v) = Tuple(news);
    for (const ir::Ref &r : op.writes) list.push_back({array(r.value), extents, nullptr, next, true});
}

Expr KernelOutputs::norm_for_rule(const ir::Update &u, Norm::Of of) {
    const ir::Parameter &w = p.parameters[u.w];
    Expr square = cast<double>(0);
    const int apart = p.norms_apart;
    const auto &slots = of == Norm::weight ? w.weight_norm : w.gradient_norm;
    const char *name = of == Norm::weight ? "weight_norm" : "gradient_norm";
    for (int j = 0; j < slots.count; j++)
        square += in.slice(p.norms, slots.first, slots.count * apart, name)(j * apart);
    if (of == Norm::weight) return p.optimizer->once(sqrt(square));
    Expr norm = sqrt(max(square, cast<double>(0)));
    return p.optimizer->once(u.scaled ? norm * cast<double>(scale_word(0)) : norm);
}

template <typename Element>
std::vector<Expr> KernelOutputs::rule(const ir::Update &u, const Element &element, const Expr &g) {
    Optimizer &o = *p.optimizer;
    o.decays = p.parameters[u.w].shape.rank() > 1;
    o.step = p.guarded ? cast<double>(in.image(p.count, {2}, "count")(0)) : values.scalar(0, u.w);
    const int first = int(p.scalar_names.size() - o.scalars().size());
    for (int j = 0; j < int(o.scalars().size()); j++) o.scalars()[j]->exact = values.scalar(first + j, u.w);
    for (int j = 0; j < int(o.states().size()); j++) o.states()[j]->now = element(j + 1);
    for (Norm *n : o.norms()) n->now = norm_for_rule(u, n->of);
    std::vector<Expr> news = {o(element(0), g)};
    for (const State *state : o.states()) news.push_back(state->now);
    // The rule gives the same bits wherever it is placed: no fused multiply-add in one place and not in another.
    for (Expr &e : news) e = strict(e);
    return news;
}

void KernelOutputs::norm(const ir::Op &op, const ir::Norm &n) {
    if (n.ghost()) {
        const Func norm = values.ghost_norms.at(&op);
        const bool bounded = std::holds_alternative<ir::CauchySchwarzBound>(n.how);  // overflows as float32 elements do
        list.push_back({p.norms,
                        {1},
                        [norm, bounded](auto &v) -> Expr {
                            return bounded ? cast<double>(cast<float>(norm(v[0]))) : Expr(norm(v[0]));
                        },
                        {},
                        false,
                        n.slot});
        return;
    }
    const ir::Parameter &w = p.parameters[n.w];
    const bool of_several = op.reads.size() > 1 && !n.of_weight();
    const ValueId of = n.of_weight() ? w.value : of_several ? p.base(w.gradient) : w.gradient;
    int size = int(n.shard.worker >= 0 ? n.shard.count : p.values[of].storage().size());
    Func g = in.image(of, {size}, "g");
    if (n.of_weight() && w.master) {
        Func rest = in.image(w.master, {size}, "master_low"), whole("whole");
        Var i("i");
        whole(i) = MasterExpr{g(i), rest(i)}.whole();
        g = whole;
    }
    Func norm("norm");
    RDom i(0, size, "i");
    Var u("u");
    norm(u) += g(i) * g(i);
    list.push_back({p.norms, {1}, [norm](auto &v) -> Expr { return cast<double>(norm(v[0])); }, {}, false, n.slot});
    values.defined.push_back({&op, norm});
}

/// The next states, in place and element by element.
void KernelOutputs::next_state(const ir::Op &op, const ir::NextState &n) {
    const std::vector<int> &extents = p.parameters[n.states.front()].shape.extents();
    const std::vector<Var> v = storage_vars(int(extents.size()));
    const ::cryolite::Call seen = values.seen(op, n.call);
    Func next("next");
    next(v) = Tuple(std::vector<Expr>(n.states.size(), undef<float>()));
    const FuncRef old = next(v);
    std::vector<Expr> news;
    for (size_t j = 0; j < n.states.size(); j++) {
        const auto &state = static_cast<const LayerState &>(p.source(n.states[j]));
        news.push_back(p.source(n.call).next(state, n.states.size() == 1 ? Expr(old) : Expr(old[int(j)]), v, seen));
    }
    next(v) = Tuple(news);
    for (const ir::Ref &r : op.writes) list.push_back({r.value, extents, nullptr, next, true});
}

/// min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. Where updates may be withheld, also whether
/// the norm is finite, and how many updates were done and withheld. Where the loss is scaled, gradients and norms are,
/// too: the factor undoes that, exactly, since the scale is a power of two.
void KernelOutputs::scale(const ir::GradientScale &s) {
    int n = p.gradient_norms;
    Func square("square"), scale("scale");
    RDom i(0, n, "i");
    Var u("u");
    square(u) += in.image(p.norms, {n}, "norms")(i);
    Expr norm = sqrt(max(square(u), cast<double>(0)));
    if (p.loss_scaler) norm /= cast<double>(in.image(p.loss_scaler.scale, {1}, "loss_scale")(0));
    scale(u) = cast<float>(min(cast<double>(1), values.scalar(2) / (norm + Expr(1e-6))));
    if (!p.guarded) {
        list.push_back({p.scale, {1}, [scale](auto &v) -> Expr { return scale(v[0]); }});
        return;
    }
    // Tests the bits as they are stored, because the compiler assumes that all values which it computes are finite.
    Expr bits = reinterpret<uint64_t>(in.image(p.norms, {n}, "norms")(i));
    Func infinite("infinite"), next("next");
    infinite(u) += cast<int32_t>(((bits >> 52) & cast<uint64_t>(0x7ff)) == 0x7ff);
    Expr finite = infinite(0) == 0;
    next(u) = Tuple(undef<float>(), undef<int32_t>());
    Expr factor = s.clip ? scale(0) : cast<float>(1);
    if (p.loss_scaler) factor /= in.image(p.loss_scaler.scale, {1}, "loss_scale")(0);
    next(u) = Tuple(select(u == 0, factor, cast<float>(finite)), next(u)[1] + cast<int32_t>(finite == (u == 0)));
    for (ValueId v : {p.scale, p.count}) list.push_back({v, {2}, nullptr, next, true});
}

/// The scale shrinks after an update that was withheld, and grows after `loss_scale_interval` updates in a row that
/// were done. It stays in a range in which it and its inverse are finite.
void KernelOutputs::next_loss_scale(const ir::Op &op) {
    auto number = [&](const char *name) {
        const auto at = std::ranges::find(p.scalar_names, name);
        return values.scalar(int(at - p.scalar_names.begin()));
    };
    Func next("next");
    Var u("u");
    next(u) = Tuple(undef<float>(), undef<int32_t>(), undef<int32_t>());
    FuncRef old = next(u);
    Expr scale = old[0], good = cast<int32_t>(old[1]) + 1, finite = scale_word(1) > 0;
    Expr grows = cast<double>(good) >= number("loss_scale_interval");
    auto within = [&](const Expr &factor, const Expr &x) {
        return cast<float>(clamp(cast<double>(x) * factor, Expr(least_loss_scale), Expr(largest_loss_scale)));
    };
    Expr after = select(!finite, within(number("loss_scale_backoff"), scale), grows,
                        within(number("loss_scale_growth"), scale), scale);
    next(u) = Tuple(after, select(finite && !grows, good, 0), select(after < 1.0f, cast<int32_t>(old[2]) + 1, 0));
    for (const ir::Ref &r : op.writes) list.push_back({r.value, {1}, nullptr, next, true});
}

}  // namespace cryolite::compiler
