#include "bundle/plan.h"

#include <algorithm>

#include "bundle/matrix_tiles.h"

namespace cryolite {

int64_t PlanBuffer::elements() const {
    int64_t n = 1;
    for (int e : shape) n *= e;
    return n;
}

int PlanBuffer::element_bytes() const {
    return type.ends_with("64") ? 8 : type.ends_with("16") ? 2 : type.ends_with("8") ? 1 : 4;
}

const PlanKernel::Dialect *PlanKernel::dialect(const std::string &name) const {
    for (const Dialect &d : dialects)
        if (d.name == name) return &d;
    return nullptr;
}

void Plan::choose(const std::map<std::string, DialectChoice> &dialects) {
    auto choice = [&](const PlanKernel &k) {
        auto at = dialects.find(k.symbol);
        return k.symbol.empty() || k.dialects.empty() || at == dialects.end() ? nullptr : &at->second;
    };
    for (auto &[name, calls] : plans)
        for (PlanCall &c : calls)
            if (c.kernel >= 0)
                if (const DialectChoice *chosen = choice(kernels[size_t(c.kernel)])) c.why = chosen->why;
    for (PlanKernel &k : kernels)
        if (const DialectChoice *chosen = choice(k))
            if (const PlanKernel::Dialect *d = k.dialect(chosen->dialect))
                k.chosen = int(d - k.dialects.data()), k.loops = d->name;
}

int Plan::find(Role role, const std::string &name) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == role && (name.empty() || buffers[b].name == name)) return b;
    return -1;
}

int Plan::scalar(const std::string &name) const {
    for (int s = 0; s < int(scalar_names.size()); s++)
        if (scalar_names[s] == name) return s;
    return -1;
}

int Plan::master_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if ((buffers[b].role == Role::master_low || buffers[b].role == Role::master) &&
            buffers[b].parameter == parameter)
            return b;
    return -1;
}

int Plan::gradient_of(int parameter) const {
    for (int b = 0; b < int(buffers.size()); b++)
        if (buffers[b].role == Role::gradient && buffers[b].parameter == parameter) return b;
    return -1;
}

int64_t Plan::elements(const PlanCall &call, size_t argument) const {
    if (call.sum > 0) return call.sum;
    int64_t n = 1;
    for (int e : kernels[size_t(call.kernel)].args[argument].extents) n *= e;
    return n;
}

std::map<std::string, int64_t> Plan::memory(int replicas) const {
    std::map<std::string, int64_t> bytes = {{role_name(Role::activation), arena * replicas}};
    for (const PlanBuffer &b : buffers)
        if (b.stored && !b.in_arena() && b.role != Role::joint)  // its parts are counted
            bytes[role_name(b.role)] +=
                b.bytes * (b.role == Role::gradient || b.role == Role::input || b.role == Role::partial ? replicas : 1);
    return bytes;
}

const std::string &Plan::loops(const PlanCall &c) const {
    static const std::string sum = "sum of workers";
    return c.kernel < 0 ? sum : kernels[size_t(c.kernel)].loops;
}

bool Plan::multiplies_by_tiles() const {
    return std::ranges::any_of(kernels, [](const PlanKernel &k) { return k.loops.ends_with(by_tiles); });
}

bool Plan::writes(const PlanCall &c, size_t argument) const {
    return c.kernel < 0 || kernels[size_t(c.kernel)].args[argument].written;
}

int64_t Plan::parameters() const {
    int64_t n = 0;
    for (const PlanBuffer &b : buffers)
        if (b.role == Role::parameter && !b.of_layer) n += b.elements();
    return n;
}

int64_t Plan::trained_parameters() const {
    int64_t n = 0;
    for (const PlanBuffer &b : buffers)
        if (b.role == Role::parameter && !b.of_layer && b.frozen.empty()) n += b.elements();
    return n;
}

}  // namespace cryolite
