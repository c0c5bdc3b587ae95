#include "generators/driver/write_bundle.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

json buffer_json(const StepProgram &p, ValueId id, const ir::MemoryPlan &memory) {
    using ir::Role;
    const ir::Value &v = p.values[id];
    json j = {{"name", v.name},
              {"role", role_name(v.role)},
              {"type", v.type.str()},
              {"shape", v.shape.extents()},
              {"bytes", v.bytes()}};
    if (!v.format_why.empty()) j["format_why"] = v.format_why;
    if (!v.layout.row_major()) j["layout"] = {{"panel", v.layout.panel}, {"dim", v.layout.dim}};
    if (v.role == Role::parameter) {
        const Init &init = p.source(v.parameter).init();
        j["init"] = {{"rule", init.rule == Init::normal ? "normal" : "constant"}, {"value", init.value}};
        const ir::Parameter &w = p.parameters[v.parameter];
        if (w.state)
            j["of_layer"] = true;
        else if (!w.trained())
            j["frozen"] = w.frozen;
    }
    if (v.role == Role::state || v.role == Role::gradient || v.role == Role::master_low || v.role == Role::share ||
        v.role == Role::master || v.role == Role::partial)
        j["parameter"] = p.parameters[v.parameter].value.index;
    if (id.index < int(p.graph.values().size()))
        if (const auto &elements = p.graph.values()[size_t(id.index)].constant; !elements.empty())
            j["constant"] = elements;
    const auto at = memory.offset.find(id);
    if (v.role == Role::activation) j["offset"] = at == memory.offset.end() ? -1 : at->second;
    if (v.role == Role::partial) j["level"] = v.level;
    if (v.role == Role::share) j["worker"] = v.worker, j["stored"] = false;
    if (v.part_of || !v.stored || (v.role == Role::activation && at == memory.offset.end())) j["stored"] = false;
    return j;
}

/// What a loss takes for ids among the targets, and what the runtime tells it of how much they count.
json ids_json(const Graph::Ids &ids) {
    json j = {{"loss", ids.loss}, {"input", ids.value}, {"classes", ids.classes}};
    if (ids.ignored && *ids.ignored == std::floor(*ids.ignored) && std::abs(*ids.ignored) < 0x1p31)
        j["ignored"] = int64_t(*ids.ignored);
    else if (ids.ignored)
        j["ignored"] = *ids.ignored;
    if (ids.class_weights >= 0) j["class_weights"] = ids.class_weights;
    if (ids.mean_weight >= 0) j["mean_weight"] = ids.mean_weight;
    return j;
}

json group_json(const StepProgram &p, int number) {
    const ir::ParamGroup &g = p.groups[size_t(number)];
    json j = {{"at", number * p.scalars_apart},
              {"texts", g.texts},
              {"settings", json::array()},
              {"parameters", json::array()}};
    for (auto &[scalar, value] : {std::pair{"lr", g.lr}, {"weight-decay", g.decay}})
        if (value) j["settings"].push_back({{"scalar", scalar}, {"value", value->value}, {"times", value->times}});
    for (const ir::Parameter &w : p.parameters)
        if (w.group == number) j["parameters"].push_back(w.value.index);
    return j;
}

/// What is one kernel of the plan: equal code that equal dialects may stand in for.
std::string plan_key(const CompiledKernel &k) { return k.key + json(k.dialects).dump(); }

/// A sum over workers, which the runtime computes.
json reduce_json(const StepProgram &p, const ir::Op &op, const ir::Reduce &r) {
    const ValueId gradient = p.parameters[r.w].gradient;
    return {{"kernel", -1},
            {"name", op.name},
            {"pass", "update"},
            {"worker", r.shard.worker},
            {"sum", r.shard.count},
            {"stages", {{{"name", op.name}, {"placed", op.placed}, {"why", op.why}}}},
            {"args", {{gradient.index, r.shard.begin}}},
            {"flops", 0.0},
            {"bytes", (p.workers + 1) * r.shard.count * p.values[gradient].type.bytes()}};
}

json call_json(const StepProgram &p, const ir::Kernel &kernel, const CompiledKernel &c, int symbol) {
    json stages = json::array();
    double flops = 0, extra = 0;
    for (OpId id : kernel.ops) {
        const ir::Op &op = p.ops[id];
        stages.push_back({{"name", op.name}, {"placed", op.placed}});
        if (!op.why.empty()) stages.back()["why"] = op.why;
        flops += op.flops;
        auto *f = ir::as<ir::Forward>(op);
        if ((f && f->when == ir::Forward::remat) || ir::is<ir::Norm>(op)) extra += op.flops;
    }
    json args = json::array();
    int64_t bytes = 0;
    for (const KernelArgument &a : c.arguments) {
        args.push_back({p.base(a.value).index, a.offset + p.values[a.value].begin});
        bytes += Shape(a.extents).size() * a.type.bytes();
    }
    json j = {{"kernel", symbol}, {"name", kernel.name}, {"pass", kernel.pass}, {"stages", stages},
              {"args", args},     {"flops", flops},      {"bytes", bytes}};
    if (extra > 0) j["extra_flops"] = extra;
    if (kernel.workspace) j["workspace"] = kernel.workspace.index;
    if (!kernel.dialect_why.empty()) j["why"] = kernel.dialect_why;
    if (int worker = ir::shard_of(p.ops[kernel.ops[0]]).worker; worker >= 0) j["worker"] = worker;
    return j;
}

}  // namespace

json plan_json(const StepProgram &p, const Model &model, const CompileReport &compiled, const ir::MemoryPlan &memory) {
    json j = {{"format", 5},
              {"device", p.schedule->machine.device},
              {"task", model.task()},
              {"workers", p.workers},
              {"arena", memory.bytes},
              {"arena_unshared", memory.unshared},
              {"loss", p.loss.index},
              {"output", p.output.index},
              {"scalars", p.scalar_names},
              {"scalar_values", p.scalar_values}};
    if (p.parts) j["parts"] = p.parts;
    if (const Machine &m = p.schedule->machine; m.device == "cuda")
        j["capability"] = m.target.get_cuda_capability_lower_bound();
    if (p.evaluation.loss)
        j["evaluation"] = {{"loss", p.evaluation.loss.index}, {"row_weights", p.evaluation.row_weights.index}};
    else
        j["evaluation"] = {{"hindrance", p.evaluation.hindrance}};
    for (ValueId v : p.evaluation.terms) j["evaluation"]["terms"].push_back(v.index);
    if (p.spared != ir::Spared{})
        j["spared"] = {{"state_bytes", p.spared.state_bytes},
                       {"gradient_bytes", p.spared.gradient_bytes},
                       {"flops", p.spared.flops}};
    for (int g = 1; g < int(p.groups.size()); g++) j["groups"].push_back(group_json(p, g));
    j["ids"] = json::array();
    for (const Graph::Ids &ids : p.graph.ids()) j["ids"].push_back(ids_json(ids));
    for (const ir::Program::Term &t : p.terms) j["terms"].push_back({{"loss", t.name}, {"buffer", t.value.index}});
    for (ValueId v : p.values.ids()) j["buffers"].push_back(buffer_json(p, v, memory));
    std::map<std::string, int> numbers;
    for (KernelId id : p.kernels.ids()) {
        const CompiledKernel &k = compiled.kernels[size_t(id.index)];
        if (!p.is_compiled(p.kernels[id]) || !numbers.emplace(plan_key(k), int(numbers.size())).second) continue;
        json args = json::array();
        for (const KernelArgument &a : k.arguments)
            args.push_back({{"type", data_type(a.type).str()}, {"extents", a.extents}, {"written", a.written}});
        j["kernels"].push_back({{"loops", k.loops}, {"layer", k.layer}, {"form", k.form}, {"args", args}});
        if (k.by_halide) j["kernels"].back()["symbol"] = "cryolite_" + k.key;
        for (auto &[name, product] : k.dialects)
            j["kernels"].back()["dialects"].push_back({{"name", name}, {"product", product}});
    }
    for (auto &[name, entry] : p.entries) {
        json &calls = j["plans"][name] = json::array();
        for (KernelId id : entry.kernels) {
            const ir::Kernel &k = p.kernels[id];
            const ir::Op &first = p.ops[k.ops[0]];
            const CompiledKernel &c = compiled.kernels[size_t(id.index)];
            if (auto *r = ir::as<ir::Reduce>(first))
                calls.push_back(reduce_json(p, first, *r));
            else
                calls.push_back(call_json(p, k, c, numbers.at(plan_key(c))));
        }
    }
    return j;
}

}  // namespace cryolite::compiler
