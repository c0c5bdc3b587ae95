#include "generators/kernel_inputs.h"

#include "generators/partition.h"
#include "generators/ranks.h"

namespace cryolite {

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
    if (auto it = storage_.find(buffer); it != storage_.end()) return it->second;
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
    images.push_back({buffer, im, extents});
    return storage_[buffer] = f;
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
        int id = p.parameter_buffer.at(w);
        const Buffer &b = p.buffers[id];
        auto known = arrays.find(id);
        if (known == arrays.end()) {
            Func stored = image(id, b.storage().extents(), w->symbol() + "_stored"), f(w->symbol());
            std::vector<Var> v = storage_vars(b.shape.rank());
            f(v) = stored(b.layout.to_storage(as_exprs(v)));
            known = arrays.emplace(id, Array(f, b.shape)).first;
        }
        w->bind(known->second);
    }
}

}  // namespace cryolite
