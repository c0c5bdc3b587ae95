#include "generators/passes/pass.h"

namespace cryolite::compiler {

ValueId StepProgram::replaceable_input(const ir::Kernel &k) const {
    const auto *grad = k.ops.size() == 1 ? ir::as<ir::InputGrad>(ops[k.ops[0]]) : nullptr;
    if (!grad || !source(grad->call).adjoint_replaces(grad->input)) return {};
    return calls[grad->call].inputs.at(size_t(grad->input));
}

OpId add_op(StepProgram &p, const std::string &entry, ir::Op op) {
    op.reads = offered(p, op);
    const OpId id = p.ops.add(std::move(op));
    p.entries[entry].ops.push_back(id);
    return id;
}

const std::vector<OpId> &ops_of(const StepProgram &p, const std::string &entry) {
    static const std::vector<OpId> none;
    auto e = p.entries.find(entry);
    return e == p.entries.end() ? none : e->second.ops;
}

ValueId add_activation(StepProgram &p, const std::string &name, const Shape &shape, ir::DataType type) {
    return p.values.add({name, ir::Role::activation, type, shape});
}

void become_part(StepProgram &p, ValueId part, ValueId whole, int64_t begin) {
    ir::Value &v = p.values[part];
    v.part_of = whole, v.begin = begin, v.role = p.values[whole].role, v.type = p.values[whole].type;
}

namespace {

class Offered {
public:
    Offered(const StepProgram &p, const ir::Op &op) : p(p), op(op) {}
    std::vector<ir::Ref> list;

    void add(ValueId v) {
        if (v) list.push_back({v});
    }
    void add_weight(ParamId w) {
        add(p.parameters[w].value);
        add(p.parameters[w].master);
    }
    /// The adjoint of the loss is made of the step's scalars and of the scale of the loss.
    void adjoint(ValueId dy) {
        add(dy);
        if (dy == p.scalars) add(p.loss_scaler.scale);
    }
    void call(CallId c) {
        for (ValueId v : p.calls[c].inputs) add(p.operand(op, v));
    }
    void operator()(const ir::Norm &n) {
        if (n.of_weight()) return add_weight(n.w);
        if (!n.ghost()) add(p.parameters[n.w].gradient);
    }
    void operator()(const ir::Update &u) {
        const ir::Parameter &w = p.parameters[u.w];
        add(w.gradient);
        if (!p.optimizer->norms().empty()) add(p.norms);
        for (ValueId share : w.shares) add(share);
        add(p.scalars);
        if (u.scaled || p.guarded) add(p.scale);
        if (p.guarded) add(p.count);
    }
    void operator()(const ir::GradientScale &) { add(p.norms), add(p.scalars), add(p.loss_scaler.scale); }
    void operator()(const ir::NextLossScale &) { add(p.scale), add(p.scalars); }
    void operator()(const ir::Reduce &r) { add(p.parameters[r.w].gradient); }
    void operator()(const auto &) {}

private:
    const StepProgram &p;
    const ir::Op &op;
};

}  // namespace

std::vector<ir::Ref> offered(const StepProgram &p, const ir::Op &op) {
    Offered o(p, op);
    for (ValueId a : ir::addends_of(op)) o.add(a);
    if (auto c = ir::call_of(op)) {
        o.call(*c);
        for (ParamId w : p.layer(*c).parameters) o.add_weight(w);
        if (!ir::is<ir::Forward>(op)) o.add(p.operand(op, p.calls[*c].output));
    }
    if (auto use = ir::use_of(op)) o.adjoint(use->dy);
    if (auto *g = ir::as<ir::ParamGrad>(op); g && g->accumulate) o.add(op.writes[0].value);
    if (auto *n = ir::as<ir::Norm>(op); n && n->ghost()) {
        auto *gram = std::get_if<ir::Gram>(&n->how);
        const ir::Use other = gram ? gram->b : *ir::use_of(op);
        o.call(other.call);
        o.adjoint(other.dy);
    }
    std::visit(o, op.kind);
    return o.list;
}

Halide::Type halide_type(const ir::DataType &t) {
    switch (t.kind) {
    case ir::DataType::integer:
        return Halide::Int(t.bits);
    case ir::DataType::natural:
        return Halide::UInt(t.bits);
    case ir::DataType::floating:
        return Halide::Float(t.bits);
    case ir::DataType::bfloat:
        return Halide::BFloat(t.bits);
    }
    return {};
}

ir::DataType data_type(const Halide::Type &t) {
    using D = ir::DataType;
    return {t.is_bfloat() ? D::bfloat : t.is_float() ? D::floating : t.is_int() ? D::integer : D::natural, t.bits()};
}

}  // namespace cryolite::compiler
