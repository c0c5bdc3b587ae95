#include "generators/lowering/kernel/kernel_values.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "dsl/ghost_norm.h"
#include "dsl/layers/linear.h"
#include "generators/lowering/expressions/scatter.h"
#include "schedules/table.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;

namespace {

/// The same Func, whose pure definition is undefined, with results in a type of 16 bits.
Func undefined_half(const Func &f, const Type &to) {
    Func g(base_name(f.name()));
    g(f.args()) = undef(to);
    g(f.update_args()) = rounded(f.update_value(), to);
    return g;
}

/// Gives each input a name of its own: a layer that reads a value twice makes a gradient for each input, by its name.
std::vector<Array> told_apart(std::vector<Array> x) {
    std::set<std::string> names;
    for (size_t k = 0; k < x.size(); k++) {
        if (names.insert(x[k].name()).second) continue;
        Func again(base_name(x[k].name()));
        again(Halide::_) = x[k](Halide::_);
        x[k] = Array(again, x[k].shape);
    }
    return x;
}

}  // namespace

bool starts_undefined(const Func &f) {
    const auto *call = f.value().as<Internal::Call>();
    return f.has_update_definition() && f.outputs() == 1 && call && call->is_intrinsic(Internal::Call::undef);
}

KernelValues::KernelValues(const StepProgram &p, const ir::Kernel &k, HalfProducts how)
    : in(p, k, [this](const ir::Op &op) { define(op); }), p(p), k(k), how(how) {
    for (OpId id : k.ops) define(p.ops[id]);
}

Expr KernelValues::scalar(int index, ParamId of) {
    const int begin = of ? p.parameters[of].group * p.scalars_apart : 0;
    return in.slice(p.scalars, begin, int(p.scalar_names.size()), "scalars")(index);
}

/// Defines the Func of an operation. Updates, states and norms of stored arrays are defined where they are stored.
void KernelValues::define(const ir::Op &op) {
    auto *n = ir::as<ir::Norm>(op);
    if (auto *f = ir::as<ir::Forward>(op))
        forward(op, f->call);
    else if (n && n->ghost())
        ghost_norm(op, *n);
    else if (auto use = ir::use_of(op))
        gradient(op, *use);
    else if (ir::is<ir::AddAdjoints>(op))
        sum(op);
}

std::vector<Array> KernelValues::inputs(const ir::Op &op, CallId c) {
    std::vector<Array> x;
    for (ValueId v : p.calls[c].inputs) x.push_back(in.array(p.operand(op, v), fmt::format("x{}", x.size())));
    return x;
}

void KernelValues::forward(const ir::Op &op, CallId c) {
    const ValueId out = op.writes[0].value;
    std::vector<Array> x = inputs(op, c);
    bind(c);
    Func y = products(op, c, p.source(c).forward(x), p.values[out].shape);
    check_result(op, y, in.rank(out), p.values[out].type);
    in.arrays[out] = in.kept(out, y, seen_shape(out));
    defined.push_back({&op, y});
}

void KernelValues::bind(CallId c) {
    in.bind_parameters(c);
    bind_factors(c);
}

void KernelValues::bind_factors(CallId c) {
    HalfFactors factors;
    if (p.layer(c).half_products) {
        factors = {.format = p.format, .pairs = p.format == bf16 && how == HalfProducts::dot_products};
        for (const auto &[name, half] : in.halves) factors.stored.insert(name);
    }
    p.source(c).half_factors(factors);
}

Func KernelValues::products(const ir::Op &op, CallId c, const Func &f, const Shape &result) const {
    if (p.layer(c).half_products) return with_half_factors(f, in.halves, storage_type(p.format), how);
    if (how != HalfProducts::tiles || !k.anchor || &p.ops[k.anchor] != &op) return f;
    if (!has_product_loops(p.source(c), *p.schedule)) return f;
    // What is updated in place has written loops all the same.
    const auto *of_parameter = ir::as<ir::ParamGrad>(op);
    const bool in_place = of_parameter && (of_parameter->accumulate || find<ir::Update>(of_parameter->w));
    const Form form = of_parameter ? Form::d_parameter : ir::is<ir::InputGrad>(op) ? Form::d_input : Form::forward;
    if (!in_place && p.schedule->asks_for_automatic(as_written(p.source(c)), form)) return f;
    return with_split_factors(f, result[0], result.size() / result[0]);
}

void KernelValues::check_result(const ir::Op &op, const Func &f, int rank, const ir::DataType &type) const {
    if (!f.defined()) fail("[{}] defines no result", op.name);
    if (f.outputs() != 1) fail("[{}] the result is a tuple of {}, expected one number", op.name, f.outputs());
    // Values of 16 bits are rounded where they are stored. Another type would be read as if it were float32.
    if (const Type found = f.type(); found != Float(32) && found != halide_type(type)) {
        std::ostringstream words;
        words << found;
        fail("[{}] the result has the type {}, expected float32: write cast<float>(...), or cast(x.type(), ...) for an "
             "input x of numbers",
             op.name, words.str());
    }
    if (f.dimensions() != rank)
        fail("[{}] the result has {} dimensions, but its layer says rank {}", op.name, f.dimensions(), rank);
}

::cryolite::Call KernelValues::seen(const ir::Op &op, CallId c) {
    ::cryolite::Call seen;
    seen.inputs = told_apart(inputs(op, c));
    seen.output = in.array(p.operand(op, p.calls[c].output), "y");
    bind(c);
    return seen;
}

void KernelValues::gradient(const ir::Op &op, const ir::Use &use) {
    Layer &layer = p.source(use.call);
    const ::cryolite::Call seen = this->seen(op, use.call);
    const ValueId out = p.operand(op, p.calls[use.call].output), result = op.writes[0].value;
    const Array dy = adjoint(use.dy, out);
    bind_factors(use.call);  // again: the adjoint may be stored in 16 bits
    std::map<std::string, Func> d = layer.gradient(seen, dy);
    auto *of_input = ir::as<ir::InputGrad>(op);
    const ParamId w = ir::parameter_of(op);
    const std::string of = of_input ? seen.inputs[size_t(of_input->input)].name() : p.parameters[w].name;
    auto it = d.find("d_" + of);
    if (it == d.end() || !it->second.defined())
        fail("[{}] {}::backward defines no gradient of its {}", layer.path, layer.kind(),
             of_input ? "input" : "parameter '" + of + "'");
    Func f = products(op, use.call, it->second, of_input ? p.values[result].shape : p.parameters[w].shape);
    const bool sums = !ir::addends_of(op).empty();
    if (is_narrow(p.values[result].type) && !sums && f.num_update_definitions() == 1 && starts_undefined(f))
        f = undefined_half(f, halide_type(p.values[result].type));
    check_result(op, f, of_input ? in.rank(result) : p.parameters[w].shape.rank(), p.values[result].type);
    defined.push_back({&op, f});
    if (sums) f = with_addends(op, f);
    if (!of_input && is_scatter(f, p.values[result].layout) && find<ir::Update>(w)) {
        if (!scattered.emplace(w, f).second) fail("[{}] two lookups of a table are in its update", op.name);
    } else {
        in.arrays[result] = in.kept(result, f, of_input ? seen_shape(result) : p.values[result].shape);
    }
}

Factors KernelValues::factors(const ir::Op &op, ParamId w, const ir::Use &use) {
    ::cryolite::Call seen;
    for (ValueId v : p.calls[use.call].inputs) seen.inputs.push_back(in.array(p.operand(op, v), "x"));
    Factors both = p.source(use.call).factors(p.source(w), seen, in.array(use.dy, "dy"));
    if (p.layer(use.call).half_products)
        for (Factor *one : {&both.first, &both.second}) one->f = rounded_factor(one->f);
    return both;
}

/// A factor as the product reads it: rounded to 16 bits.
Func KernelValues::rounded_factor(const Func &f) const {
    Func g("factor");
    std::vector<Var> v = storage_vars(f.dimensions());
    g(v) = widened(narrowed(f(as_exprs(v)), in.halves, storage_type(p.format)));
    return g;
}

void KernelValues::ghost_norm(const ir::Op &op, const ir::Norm &n) {
    Func norm;
    if (auto *bound = std::get_if<ir::CauchySchwarzBound>(&n.how)) {
        norm = GhostBound(factors(op, n.w, bound->of)).bound;
    } else {
        auto &gram = std::get<ir::Gram>(n.how);
        const bool same = gram.a.call == gram.b.call;
        Factors a = factors(op, n.w, gram.a), b = same ? a : factors(op, n.w, gram.b);
        norm = GhostNorm(a, b, same).norm;
    }
    ghost_norms[&op] = norm;
    defined.push_back({&op, norm});
}

/// The adjoint of the output; that of the loss itself is the factor given at run time, times the scale of the loss.
Array KernelValues::adjoint(ValueId given, ValueId out) {
    if (given != p.scalars) return in.array(given, "dy");
    Func dy("dy");
    const int rank = in.rank(out);  // a pointwise layer sees the loss in as many dimensions as its neighbours do
    std::vector<Var> v = storage_vars(rank);
    v[0] = Var("u");
    dy(v) = p.loss_scaler ? cast<float>(scalar(1)) * in.image(p.loss_scaler.scale, {1}, "loss_scale")(0)
                          : cast<float>(scalar(1));
    return Array(dy, p.values[out].shape.folded(rank));
}

Func KernelValues::with_addends(const ir::Op &op, const Func &f) {
    Func total("total");
    std::vector<Var> v = storage_vars(in.rank(op.writes[0].value));
    Expr e = f.defined() ? Expr(f(as_exprs(v))) : Expr(0.0f);
    for (ValueId addend : ir::addends_of(op)) e += in.array(addend, "addend")(as_exprs(v));
    total(v) = e;
    return total;
}

void KernelValues::sum(const ir::Op &op) {
    const ValueId out = op.writes[0].value;
    in.arrays[out] = in.kept(out, with_addends(op, Func()), seen_shape(out));
}

}  // namespace cryolite::compiler
