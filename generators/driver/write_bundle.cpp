#include "generators/driver/write_bundle.h"

#include <nlohmann/json.hpp>

namespace cryolite::compiler {

namespace {

PlanBuffer buffer_of(const StepProgram &p, ValueId id, const ir::MemoryPlan &memory) {
    const ir::Value &v = p.values[id];
    PlanBuffer b{.name = v.name,
                 .role = v.role,
                 .type = v.type.str(),
                 .shape = v.shape.extents(),
                 .bytes = v.bytes(),
                 .format_why = v.format_why};
    if (!v.layout.row_major()) b.layout = {v.layout.panel, v.layout.dim};
    if (v.role == Role::parameter) {
        const Init &init = p.source(v.parameter).init();
        b.init = {init.rule == Init::normal ? "normal" : "constant", init.value};
        const ir::Parameter &w = p.parameters[v.parameter];
        b.of_layer = w.state;
        if (!w.state && !w.trained()) b.frozen = w.frozen;
    }
    if (v.role == Role::state || v.role == Role::gradient || v.role == Role::master_low || v.role == Role::share ||
        v.role == Role::master || v.role == Role::partial)
        b.parameter = p.parameters[v.parameter].value.index;
    if (id.index < int(p.graph.values().size())) b.constant = p.graph.values()[size_t(id.index)].constant;
    if (v.role == Role::partial) b.level = v.level;
    if (v.role == Role::share) b.worker = v.worker;
    const auto at = memory.offset.find(id);
    const bool has_place = at != memory.offset.end();
    if (has_place) b.offset = at->second;
    const bool in_joint = v.part_of && v.is_state();
    if (in_joint) b.part_of = v.part_of.index, b.begin = v.begin;
    b.stored =
        v.stored && (!v.part_of || in_joint) && v.role != Role::share && (v.role != Role::activation || has_place);
    return b;
}

/// Which targets a loss takes for ids, and the input in which the runtime tells the loss how much their rows count.
PlanIds ids_of(const Graph::Ids &ids) {
    return {.loss = ids.loss,
            .input = ids.value,
            .classes = ids.classes,
            .ignored = ids.ignored,
            .class_weights = ids.class_weights,
            .mean_weight = ids.mean_weight};
}

PlanGroup group_of(const StepProgram &p, int number) {
    const ir::ParamGroup &g = p.groups[size_t(number)];
    PlanGroup group{.at = number * p.scalars_apart, .settings = {}, .texts = g.texts, .parameters = {}};
    for (auto &[scalar, value] : {std::pair{"lr", g.lr}, {"weight-decay", g.decay}})
        if (value) group.settings.push_back({scalar, value->value, value->times});
    for (const ir::Parameter &w : p.parameters)
        if (w.group == number) group.parameters.push_back(w.value.index);
    return group;
}

Plan::Evaluation evaluation_of(const ir::Evaluation &e) {
    if (!e.loss) return {.hindrance = e.hindrance};
    Plan::Evaluation evaluation{.loss = e.loss.index, .row_weights = e.row_weights.index};
    for (ValueId v : e.terms) evaluation.terms.push_back(v.index);
    return evaluation;
}

/// Equal for kernels that are one kernel of the plan: their code is equal, and so are the dialects that can replace it.
std::string plan_key(const CompiledKernel &k) { return k.key + nlohmann::json(k.dialects).dump(); }

PlanKernel kernel_of(const CompiledKernel &c) {
    PlanKernel k{.symbol = c.by_halide ? "cryolite_" + c.key : "", .loops = c.loops, .layer = c.layer, .form = c.form};
    for (const KernelArgument &a : c.arguments) k.args.push_back({data_type(a.type).str(), a.extents, a.written});
    for (auto &[name, product] : c.dialects) k.dialects.push_back({name, product});
    return k;
}

/// A sum over workers, which the runtime computes.
PlanCall sum_of(const StepProgram &p, const ir::Op &op, const ir::Reduce &r) {
    const ValueId gradient = p.parameters[r.w].gradient;
    return {.kernel = -1,
            .worker = r.shard.worker,
            .sum = r.shard.count,
            .name = op.name,
            .pass = "update",
            .stages = {{op.name, op.placed, op.why}},
            .args = {{gradient.index, r.shard.begin}},
            .bytes = (p.workers + 1) * r.shard.count * p.values[gradient].type.bytes()};
}

PlanCall call_of(const StepProgram &p, const ir::Kernel &kernel, const CompiledKernel &compiled, int index) {
    PlanCall c{.kernel = index,
               .worker = ir::shard_of(p.ops[kernel.ops[0]]).worker,
               .name = kernel.name,
               .pass = kernel.pass,
               .workspace = kernel.workspace.index,
               .why = kernel.dialect_why};
    for (OpId id : kernel.ops) {
        const ir::Op &op = p.ops[id];
        c.stages.push_back({op.name, op.placed, op.why});
        c.flops += op.flops;
        auto *f = ir::as<ir::Forward>(op);
        if ((f && f->when == ir::Forward::remat) || ir::is<ir::Norm>(op)) c.extra_flops += op.flops;
    }
    for (const KernelArgument &a : compiled.arguments) {
        const bool own = p.values[a.value].is_state();  // the runtime finds states by name, also in a shared array
        c.args.push_back({(own ? a.value : p.base(a.value)).index, a.offset + (own ? 0 : p.values[a.value].begin)});
        c.bytes += Shape(a.extents).size() * a.type.bytes();
    }
    return c;
}

}  // namespace

Plan plan_of(const StepProgram &p, const Model &model, const CompileReport &compiled, const ir::MemoryPlan &memory) {
    const Machine &machine = p.schedule->machine;
    Plan plan;
    plan.device = machine.device;
    if (plan.device == "cuda") plan.capability = machine.target.get_cuda_capability_lower_bound();
    plan.task = model.task();
    plan.workers = p.workers, plan.parts = p.parts;
    plan.arena = memory.bytes, plan.arena_unshared = memory.unshared;
    plan.loops_cleared = !p.schedule->loops_written;
    plan.loss = p.loss.index, plan.output = p.output.index;
    plan.evaluation = evaluation_of(p.evaluation);
    plan.spared = {p.spared.state_bytes, p.spared.gradient_bytes, p.spared.flops};
    plan.scalar_names = p.scalar_names, plan.scalar_values = p.scalar_values;
    for (int g = 1; g < int(p.groups.size()); g++) plan.groups.push_back(group_of(p, g));
    for (const Graph::Ids &ids : p.graph.ids()) plan.ids.push_back(ids_of(ids));
    for (const ir::Program::Term &t : p.terms) plan.terms.push_back({t.name, t.value.index});
    for (ValueId v : p.values.ids()) plan.buffers.push_back(buffer_of(p, v, memory));
    std::map<std::string, int> numbers;
    for (KernelId id : p.kernels.ids()) {
        const CompiledKernel &k = compiled.kernels[size_t(id.index)];
        if (p.is_compiled(p.kernels[id]) && numbers.emplace(plan_key(k), int(numbers.size())).second)
            plan.kernels.push_back(kernel_of(k));
    }
    for (auto &[name, entry] : p.entries) {
        std::vector<PlanCall> &calls = plan.plans[name];
        for (KernelId id : entry.kernels) {
            const ir::Kernel &k = p.kernels[id];
            const ir::Op &first = p.ops[k.ops[0]];
            const CompiledKernel &c = compiled.kernels[size_t(id.index)];
            if (auto *r = ir::as<ir::Reduce>(first))
                calls.push_back(sum_of(p, first, *r));
            else
                calls.push_back(call_of(p, k, c, numbers.at(plan_key(c))));
        }
    }
    return plan;
}

}  // namespace cryolite::compiler
