#include "generators/lowering/kernel/kernel_inputs.h"

#include <algorithm>

#include "generators/ir/ranks.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;

std::vector<Var> storage_vars(int n) {
    std::vector<Var> v;
    for (int d = 0; d < n; d++) v.emplace_back(fmt::format("i{}", d));
    return v;
}

KernelInputs::KernelInputs(const StepProgram &p, const ir::Kernel &k, std::function<void(const ir::Op &)> define)
    : p(p), k(k), define_(std::move(define)), ranks_(ir::kernel_ranks(p, k)) {}

Func KernelInputs::image(ValueId value, const std::vector<int> &extents, const std::string &name) {
    return part(value, 0, extents, name);
}

Func KernelInputs::slice(ValueId value, int offset, int count, const std::string &name) {
    return part(value, offset, {count}, name);
}

Func KernelInputs::part(ValueId value, int offset, const std::vector<int> &extents, const std::string &name) {
    if (auto it = storage_.find({value, offset}); it != storage_.end()) return it->second;
    const ir::Value &b = p.values[value];
    ImageParam im(halide_type(b.type), int(extents.size()), fmt::format("b{}", images.size()));
    int stride = 1;
    for (int d = 0; d < int(extents.size()); d++) {
        im.dim(d).set_bounds(0, extents[d]).set_stride(stride).set_estimate(0, extents[d]);
        stride *= extents[d];
    }
    im.set_host_alignment(b.stored && b.role != ir::Role::norms ? 64 : b.type.bytes());
    Func f(name);
    std::vector<Var> v = storage_vars(int(extents.size()));
    f(v) = im(as_exprs(v));
    images.push_back({value, im, extents, offset});
    return storage_[{value, offset}] = f;
}

bool KernelInputs::writes_here(ValueId value) const {
    return std::ranges::any_of(k.ops, [&](OpId id) { return ir::writes(p.ops[id], value); });
}

Array KernelInputs::array(ValueId value, const std::string &name) {
    if (auto it = arrays.find(value); it != arrays.end()) return it->second;
    const ir::Value &b = p.values[value];
    if (!b.stored && b.role == ir::Role::activation && !writes_here(value))
        if (auto again = compute_again(value)) return *again;
    Shape s = b.shape.folded(rank(value));
    if (is_narrow(b.type)) return arrays[value] = widen(image(value, s.extents(), name + "_half"), s, name);
    return arrays[value] = Array(image(value, s.extents(), name), s);
}

/// The forward value of a cheap layer, computed again from what is stored. Where the layer is not cheap the
/// array is left to `image`, and the builder refuses it if the kernel really reads it.
std::optional<Array> KernelInputs::compute_again(ValueId value) {
    const CallId c = p.values[value].producer;
    if (!c || p.layer(c).nature == Nature::anchor) return std::nullopt;
    define_(again_.emplace_back(ir::again_here(p, k, c)));  // it reads what this kernel's pass reads
    return arrays.at(value);
}

void KernelInputs::bind_parameters(CallId c) {
    for (ParamId id : p.layer(c).parameters) {
        const ir::Parameter &w = p.parameters[id];
        // A layer whose products are of 16 bits reads the narrow weight; any other layer reads the fp32 weight.
        bool whole = w.master && !p.layer(c).half_products;
        auto &known = whole ? masters_ : arrays;
        if (!known.count(w.value)) known.emplace(w.value, weight(id, whole));
        p.source(id).bind(known.at(w.value));
    }
}

Array KernelInputs::weight(ParamId id, bool whole) {
    const ir::Parameter &w = p.parameters[id];
    const std::string &symbol = p.source(id).symbol();
    const ir::Value &b = p.values[w.value];
    bool narrow = is_narrow(b.type);
    Func stored = image(w.value, b.storage().extents(), symbol + "_stored"), f(symbol + (narrow ? "_half" : ""));
    std::vector<Var> v = storage_vars(b.shape.rank());
    std::vector<Expr> at = b.layout.to_storage(as_exprs(v));
    if (whole) {
        Func rest = image(w.master, b.storage().extents(), symbol + "_low"), master(symbol);
        master(v) = MasterExpr{stored(at), rest(at)}.whole();
        return Array(master, b.shape);
    }
    f(v) = stored(at);
    return narrow ? widen(f, b.shape, symbol) : Array(f, b.shape);
}

Array KernelInputs::widen(const Func &half, const Shape &shape, const std::string &name) {
    Func f(name);
    std::vector<Var> v = storage_vars(half.dimensions());
    f(v) = widened(half(as_exprs(v)));
    halves[f.name()] = half;
    Array a(f, shape);
    a.half = half;
    return a;
}

Array KernelInputs::kept(ValueId value, const Func &f, const Shape &shape) {
    const ir::DataType to = p.values[value].type;
    if (!is_narrow(to)) return Array(f, shape);
    std::string name = base_name(f.name());
    if (f.type() == halide_type(to)) return widen(f, shape, name + "_seen");
    Func half(name + "_half");
    std::vector<Var> v = storage_vars(f.dimensions());
    half(v) = rounded(f(as_exprs(v)), halide_type(to));
    return widen(half, shape, name + "_seen");
}

}  // namespace cryolite::compiler
