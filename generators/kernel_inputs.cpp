#include "generators/kernel_inputs.h"

#include "generators/partition.h"
#include "generators/ranks.h"
#include "schedules/views.h"

namespace cryolite::compiler {

using namespace Halide;

std::vector<Var> storage_vars(int n) {
    static const char *names[] = {"i0", "i1", "i2", "i3", "i4", "i5"};
    std::vector<Var> v;
    for (int d = 0; d < n; d++) v.emplace_back(names[d]);
    return v;
}

KernelInputs::KernelInputs(const StepProgram &p, const Kernel &k,
                           std::function<void(const StageSpec &)> define)
    : p(p), k(k), define_(std::move(define)), ranks_(kernel_ranks(p, k)) {}

Func KernelInputs::image(int buffer, const std::vector<int> &extents, const std::string &name) {
    return part(buffer, 0, extents, name);
}

Func KernelInputs::slice(int buffer, int offset, int count, const std::string &name) {
    return part(buffer, offset, {count}, name);
}

Func KernelInputs::part(int buffer, int offset, const std::vector<int> &extents, const std::string &name) {
    if (auto it = storage_.find({buffer, offset}); it != storage_.end()) return it->second;
    const Buffer &b = p.buffers[buffer];
    ImageParam im(b.type, int(extents.size()), fmt::format("b{}", images.size()));
    int stride = 1;
    for (int d = 0; d < int(extents.size()); d++) {
        im.dim(d).set_bounds(0, extents[d]).set_stride(stride).set_estimate(0, extents[d]);
        stride *= extents[d];
    }
    im.set_host_alignment(b.stored && b.role != Role::norms ? 64 : b.type.bytes());
    Func f(name);
    std::vector<Var> v = storage_vars(int(extents.size()));
    f(v) = im(as_exprs(v));
    images.push_back({buffer, im, extents, offset});
    return storage_[{buffer, offset}] = f;
}

bool KernelInputs::writes_here(int buffer) const {
    for (int s : k.stages)
        for (int w : p.stages[s].writes)
            if (w == buffer) return true;
    return false;
}

Array KernelInputs::array(int buffer, const std::string &name) {
    if (auto it = arrays.find(buffer); it != arrays.end()) return it->second;
    const Buffer &b = p.buffers[buffer];
    if (!b.stored && b.role == Role::activation && !writes_here(buffer))
        if (auto rebuilt = rebuild(buffer)) return *rebuilt;
    Shape s = b.shape.folded(rank(buffer));
    if (b.type == BFloat(16)) return arrays[buffer] = widen(image(buffer, s.extents(), name + "_half"), s, name);
    return arrays[buffer] = Array(image(buffer, s.extents(), name), s);
}

/// The forward value of a cheap layer, computed again from what is stored. Where the layer is not cheap the
/// array is left to `image`, and the builder refuses it if the kernel really reads it.
std::optional<Array> KernelInputs::rebuild(int buffer) {
    for (int v = 0; v < int(p.value_buffer.size()); v++) {
        if (p.value_buffer[v] != buffer || p.value_writer[v] < 0) continue;
        const StageSpec &forward = p.stages[p.value_writer[v]];
        if (stage_nature(p, forward) == Nature::anchor) return std::nullopt;
        StageSpec &s = again_.emplace_back(forward);  // it reads what the backward pass has
        s.again = p.stages[k.stages[0]].again || p.stages[k.stages[0]].part != Part::forward;
        define_(s);
        return arrays.at(buffer);
    }
    return std::nullopt;
}

void KernelInputs::bind_parameters(const Graph::Call &c) {
    for (Parameter *w : c.layer->parameters()) {
        // A layer that multiplies in bf16 reads the half; any other the whole weight.
        int id = p.parameter_buffer.at(w);
        bool whole = p.remainder_buffer.count(w) && !c.layer->casts_in(p.format).products;
        auto &known = whole ? masters_ : arrays;
        if (!known.count(id)) known.emplace(id, weight(*w, whole));
        w->bind(known.at(id));
    }
}

Array KernelInputs::weight(const Parameter &w, bool whole) {
    int id = p.parameter_buffer.at(&w);
    const Buffer &b = p.buffers[id];
    bool halves = b.type == BFloat(16);
    Func stored = image(id, b.storage().extents(), w.symbol() + "_stored"), f(w.symbol() + (halves ? "_half" : ""));
    std::vector<Var> v = storage_vars(b.shape.rank());
    std::vector<Expr> at = b.layout.to_storage(as_exprs(v));
    if (whole) {
        Func lower = image(p.remainder_buffer.at(&w), b.storage().extents(), w.symbol() + "_remainder"), master(w.symbol());
        master(v) = MasterExpr{stored(at), lower(at)}.whole();
        return Array(master, b.shape);
    }
    f(v) = stored(at);
    return halves ? widen(f, b.shape, w.symbol()) : Array(f, b.shape);
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

Array KernelInputs::kept(int buffer, const Func &f, const Shape &shape) {
    if (p.buffers[buffer].type != BFloat(16)) return Array(f, shape);
    std::string name = base_name(f.name());
    if (f.type() == BFloat(16)) return widen(f, shape, name + "_seen");
    Func half(name + "_half");
    std::vector<Var> v = storage_vars(f.dimensions());
    half(v) = rounded(f(as_exprs(v)));
    return widen(half, shape, name + "_seen");
}

}  // namespace cryolite::compiler
