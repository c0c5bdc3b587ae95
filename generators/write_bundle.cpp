#include "generators/write_bundle.h"

#include <algorithm>

#include "generators/partition.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

std::string type_name(const Halide::Type &t) {
    const char *kind = t.is_bfloat() ? "bfloat" : t.is_float() ? "float" : t.is_int() ? "int" : "uint";
    return kind + std::to_string(t.bits());
}

json buffer_json(const StepProgram &p, int id, const MemoryPlan &memory) {
    const Buffer &b = p.buffers[id];
    json j = {{"name", b.name}, {"role", role_name(b.role)}, {"type", type_name(b.type)},
              {"shape", b.shape.extents()}, {"bytes", b.bytes()}};
    if (!b.layout.row_major()) j["layout"] = {{"panel", b.layout.panel}, {"dim", b.layout.dim}};
    if (b.role == Role::parameter)
        j["init"] = {{"rule", b.parameter->init().rule == Init::normal ? "normal" : "constant"},
                     {"value", b.parameter->init().value}};
    if (b.role == Role::state || b.role == Role::gradient || b.role == Role::remainder || b.role == Role::share)
        j["parameter"] = p.parameter_buffer.at(b.parameter);
    if (b.role == Role::activation) {
        auto at = memory.offset.find(id);
        j["offset"] = at == memory.offset.end() ? -1 : at->second;
    }
    if (b.role == Role::share) j["worker"] = b.worker, j["stored"] = false;
    if (b.part_of >= 0 || !b.stored || (b.role == Role::activation && !memory.offset.count(id))) j["stored"] = false;
    return j;
}

/// What is one kernel of the plan: equal code that equal dialects may stand in for.
std::string plan_key(const CompiledKernel &k) { return k.key + json(k.dialects).dump(); }

json call_json(const StepProgram &p, int k, const CompiledKernel &c, int symbol) {
    const Kernel &kernel = p.kernels[k];
    json stages = json::array();
    double flops = 0, extra = 0;
    for (int s : kernel.stages) {
        stages.push_back({{"name", p.stages[s].name}, {"placed", p.stages[s].placed}});
        if (!p.stages[s].why.empty()) stages.back()["why"] = p.stages[s].why;
        flops += p.stages[s].flops;
        if (p.stages[s].again || p.stages[s].part == Part::norm) extra += p.stages[s].flops;
    }
    json args = json::array();
    int64_t bytes = 0;
    for (const KernelArgument &a : c.arguments) {
        args.push_back({p.base(a.buffer), a.offset + p.buffers[a.buffer].begin});
        bytes += Shape(a.extents).size() * a.type.bytes();
    }
    json j = {{"kernel", symbol}, {"name", kernel.name}, {"pass", kernel.pass}, {"stages", stages},
              {"args", args}, {"flops", flops}, {"bytes", bytes}};
    if (extra > 0) j["extra_flops"] = extra;
    if (!kernel.dialect_why.empty()) j["why"] = kernel.dialect_why;
    if (int worker = p.stages[kernel.stages[0]].worker; worker >= 0) j["worker"] = worker;
    return j;
}

/// The sums over workers of those gradients that are whole after kernel `k` of the list, and that their updates do not add
/// themselves: a call for each part.
json sums_json(const StepProgram &p, const std::vector<int> &list, int k) {
    json sums = json::array();
    auto makes = [&](int kernel, const Parameter *w) {
        return std::ranges::any_of(p.kernels[kernel].stages, [&](int s) {
            return p.stages[s].part == Part::d_parameter && p.stages[s].parameter == w;
        });
    };
    std::vector<std::pair<int, const Parameter *>> ordered;  // the same in every process
    for (auto &[w, gradient] : p.gradient_buffer) ordered.push_back({gradient, w});
    std::sort(ordered.begin(), ordered.end());
    const std::string why = p.schedule->distributed ? "a line of the step schedule" : fmt::format("--workers {}", p.workers);
    for (auto &[gradient, w] : ordered) {
        if (p.share_buffers.count(w)) continue;
        const auto last = std::find_if(list.rbegin(), list.rend(), [&, w = w](int other) { return makes(other, w); });
        if (last == list.rend() || *last != k) continue;
        const std::string name = "sum(d(" + w->path() + "))";
        for (const StageSpec &s : p.stages)
            if (s.part == Part::next && s.parameter == w)
                sums.push_back({{"kernel", -1}, {"name", name}, {"pass", "update"}, {"worker", s.worker}, {"sum", s.count},
                                {"stages", {{{"name", name}, {"placed", "root"}, {"why", why}}}}, {"args", {{gradient, s.begin}}},
                                {"flops", 0.0}, {"bytes", (p.workers + 1) * s.count * p.buffers[gradient].type.bytes()}});
    }
    return sums;
}

}  // namespace

json plan_json(const StepProgram &p, const Model &model, const CompileReport &compiled,
               const MemoryPlan &memory) {
    json j = {{"format", 2}, {"device", p.schedule->machine.device}, {"task", model.task()}, {"workers", p.workers}, {"arena", memory.bytes},
              {"arena_unshared", memory.unshared}, {"loss", p.loss}, {"output", p.output},
              {"scalars", p.scalar_names}, {"scalar_values", p.scalar_values}};
    for (int b = 0; b < int(p.buffers.size()); b++) j["buffers"].push_back(buffer_json(p, b, memory));
    std::map<std::string, int> numbers;
    for (const CompiledKernel &k : compiled.kernels) {
        if (!numbers.emplace(plan_key(k), int(numbers.size())).second) continue;
        json args = json::array();
        for (const KernelArgument &a : k.arguments)
            args.push_back({{"type", type_name(a.type)}, {"extents", a.extents}, {"written", a.written}});
        j["kernels"].push_back({{"loops", k.loops}, {"layer", k.layer}, {"form", k.form}, {"args", args}});
        if (k.by_halide) j["kernels"].back()["symbol"] = "cryolite_" + k.key;
        for (auto &[name, product] : k.dialects) j["kernels"].back()["dialects"].push_back({{"name", name}, {"product", product}});
    }
    for (auto &[plan, list] : p.plans) {
        j["plans"][plan] = json::array();
        for (int k : list) {
            j["plans"][plan].push_back(call_json(p, k, compiled.kernels[k], numbers[plan_key(compiled.kernels[k])]));
            if (p.workers > 1 && plan == "step")
                for (json &sum : sums_json(p, list, k)) j["plans"][plan].push_back(std::move(sum));
        }
    }
    return j;
}

}  // namespace cryolite::compiler
