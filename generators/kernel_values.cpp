#include "generators/kernel_values.h"

#include "dsl/ghost_norm.h"
#include "generators/scatter.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;

namespace {

/// A Func that leaves its pure definition undefined, writing bf16.
Func undefined_half(const Func &f) {
    Func g(base_name(f.name()));
    g(f.args()) = undef(BFloat(16));
    g(f.update_args()) = rounded(f.update_value());
    return g;
}

}  // namespace

bool starts_undefined(const Func &f) {
    const auto *call = f.value().as<Internal::Call>();
    return f.has_update_definition() && f.outputs() == 1 && call && call->is_intrinsic(Internal::Call::undef);
}

KernelValues::KernelValues(const StepProgram &p, const Kernel &k)
    : in(p, k, [this](const StageSpec &s) { define(s); }), p(p), k(k) {
    for (int s : k.stages) define(p.stages[s]);
}

const StageSpec *KernelValues::stage(Part part, const Parameter *w) const {
    for (int s : k.stages)
        if (p.stages[s].part == part && p.stages[s].parameter == w) return &p.stages[s];
    return nullptr;
}

Expr KernelValues::scalar(int index) { return in.image(p.scalars, {int(p.scalar_names.size())}, "scalars")(index); }

void KernelValues::define(const StageSpec &s) {
    switch (s.part) {
    case Part::forward: return forward(s);
    case Part::d_input:
    case Part::d_parameter: return gradient(s);
    case Part::norm: return ghost(s) ? ghost_norm(s) : void();
    case Part::sum: return sum(s);
    default: return;  // updates are defined where they are stored
    }
}

std::vector<Array> KernelValues::inputs(const StageSpec &s) {
    const Graph::Call &c = call(s);
    std::vector<Array> x;
    for (int j = 0; j < int(c.inputs.size()); j++) x.push_back(in.array(p.seen(s, c.inputs[j]), fmt::format("x{}", j)));
    return x;
}

void KernelValues::forward(const StageSpec &s) {
    const Graph::Call &c = call(s);
    int out = s.writes[0];
    std::vector<Array> x = inputs(s);
    in.bind_parameters(c);
    Func y = half_products(c, c.layer->forward(x));
    check_arity(s, y, in.rank(out));
    in.arrays[out] = in.kept(out, y, seen_shape(out));
    defined.push_back({&s, y});
}

Func KernelValues::half_products(const Graph::Call &c, const Func &f) const {
    return c.layer->casts_in(p.format).products ? with_half_factors(f, in.halves) : f;
}

void KernelValues::check_arity(const StageSpec &s, const Func &f, int rank) const {
    if (!f.defined()) fail("[{}] defines no result", s.name);
    if (f.dimensions() != rank)
        fail("[{}] the result has {} dimensions, but its layer says rank {}", s.name, f.dimensions(), rank);
}

void KernelValues::gradient(const StageSpec &s) {
    const Graph::Call &c = call(s);
    ::cryolite::Call seen;
    seen.inputs = inputs(s);
    int out = p.seen(s, c.output), result = s.writes[0];
    seen.output = in.array(out, "y");
    in.bind_parameters(c);
    std::map<std::string, Func> d = c.layer->gradient(seen, adjoint(s, out));
    bool of_input = s.part == Part::d_input;
    std::string of = of_input ? seen.inputs[s.index].name() : s.parameter->name();
    auto it = d.find("d_" + of);
    if (it == d.end() || !it->second.defined())
        fail("[{}] {}::backward defines no gradient of its {}", c.layer->path, c.layer->kind(),
             of_input ? "input" : "parameter '" + of + "'");
    Func f = half_products(c, it->second);
    if (p.buffers[result].type == BFloat(16) && s.addends.empty() && f.num_update_definitions() == 1 && starts_undefined(f))
        f = undefined_half(f);
    check_arity(s, f, of_input ? in.rank(result) : s.parameter->shape().rank());
    defined.push_back({&s, f});
    if (!s.addends.empty()) f = with_addends(s, f);
    if (!of_input && is_scatter(f) && stage(Part::next, s.parameter))
        scattered[s.parameter] = f;
    else
        in.arrays[result] = in.kept(result, f, of_input ? seen_shape(result) : p.buffers[result].shape);
}

Factors KernelValues::factors(const StageSpec &s, int index, int dy) {
    const Graph::Call &c = p.graph.calls()[index];
    ::cryolite::Call seen;
    for (int v : c.inputs) seen.inputs.push_back(in.array(p.seen(s, v), "x"));
    Factors both = c.layer->factors(*s.parameter, seen, in.array(dy, "dy"));
    if (c.layer->casts_in(p.format).products)
        for (Factor *one : {&both.first, &both.second}) one->f = rounded_factor(one->f);
    return both;
}

/// As the product reads it.
Func KernelValues::rounded_factor(const Func &f) const {
    Func g("factor");
    std::vector<Var> v = storage_vars(f.dimensions());
    g(v) = widened(narrowed(f(as_exprs(v)), in.halves));
    return g;
}

void KernelValues::ghost_norm(const StageSpec &s) {
    bool same = s.call == s.call2;
    Factors a = factors(s, s.call, s.dy), b = same ? a : factors(s, s.call2, s.dy2);
    Func norm = ghost_norms[&s] = s.bounded ? GhostBound(a).bound : GhostNorm(a, b, same).norm;
    defined.push_back({&s, norm});
}

/// The adjoint of the output; that of the loss itself is the scale given at run time.
Array KernelValues::adjoint(const StageSpec &s, int out) {
    if (s.dy != p.scalars) return in.array(s.dy, "dy");
    Func dy("dy");
    Var u("u");
    dy(u) = cast<float>(scalar(1));
    return Array(dy, p.buffers[out].shape.folded(1));
}

Func KernelValues::with_addends(const StageSpec &s, const Func &f) {
    Func total("total");
    std::vector<Var> v = storage_vars(in.rank(s.writes[0]));
    Expr e = f.defined() ? Expr(f(as_exprs(v))) : Expr(0.0f);
    for (int b : s.addends) e += in.array(b, "addend")(as_exprs(v));
    total(v) = e;
    return total;
}

void KernelValues::sum(const StageSpec &s) {
    int out = s.writes[0];
    in.arrays[out] = in.kept(out, with_addends(s, Func()), seen_shape(out));
}

}  // namespace cryolite::compiler
