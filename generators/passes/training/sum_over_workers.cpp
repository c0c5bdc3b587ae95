// With several workers, a gradient is summed over them as soon as it is complete, shard by shard, unless its update
// adds the workers' gradients.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

KernelId add_reduce(StepProgram &p, ir::Line *asked, ParamId w, const ir::Shard &shard) {
    const ir::Parameter &param = p.parameters[w];
    ir::Op op{.name = "sum(d(" + param.path + "))", .kind = ir::Reduce{w, shard}, .writes = {{param.gradient}}};
    op.reads = offered(p, op);
    op.why = fmt::format("--workers {}", p.workers);
    const OpId id = p.ops.add(op);
    if (asked) asked->met(id);
    return p.ops[id].kernel = p.kernels.add({.name = op.name, .pass = "update", .ops = {id}, .dialect = "runtime"});
}

}  // namespace

void sum_over_workers(StepProgram &p, const Context &) {
    const auto at = std::ranges::find(p.lines, ir::Line::distribute, &ir::Line::how);
    ir::Line *asked = at == p.lines.end() ? nullptr : &*at;
    if (p.workers == 1) {
        if (asked) asked->verdict = {.is = ir::Verdict::unneeded, .words = "there is one worker"};
        return;
    }
    ir::Entry &step = p.entries.at(entry::step);
    std::map<KernelId, std::set<ParamId>> whole;  // by kernel: the gradients that are complete after it
    std::map<ParamId, KernelId> last;
    for (KernelId k : step.kernels)
        for (OpId id : p.kernels[k].ops)
            if (auto *g = ir::as<ir::ParamGrad>(p.ops[id]); g && p.parameters[g->w].shares.empty()) last[g->w] = k;
    for (auto &[w, k] : last) whole[k].insert(w);
    std::vector<KernelId> kernels;
    auto add = [&](ParamId w) {
        for (const ir::Shard &shard : p.parameters[w].shards) kernels.push_back(add_reduce(p, asked, w, shard));
    };
    if (p.parts)  // another entry made the gradients
        for (ParamId w : p.trained()) add(w);
    for (KernelId k : step.kernels) {
        kernels.push_back(k);
        for (ParamId w : whole[k]) add(w);
    }
    step.kernels = kernels;
    step.ops.clear();
    for (KernelId k : kernels) step.ops.insert(step.ops.end(), p.kernels[k].ops.begin(), p.kernels[k].ops.end());
    number_versions(p, step);
    if (asked && asked->open())
        asked->verdict = {.is = ir::Verdict::legal, .words = "each update adds its shard of the gradients"};
}

}  // namespace cryolite::compiler
