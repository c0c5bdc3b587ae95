#include "generators/passes/pipeline.h"

#include <cstdlib>

#include "generators/ir/verify.h"
#include "generators/passes/trace.h"

namespace cryolite::compiler {

namespace {

constexpr NamedPass list[] = {
    {"simplify", simplify, "equal calls made once, operators that do nothing taken out, constants folded"},
    {"find-products", find_products, "layers that compute y = W x + b, by what they compute"},
    {"freeze", freeze, "parameters that are not trained: the model's freeze() and --freeze"},
    {"chunk-head", chunk_head, "the head and its loss by blocks of rows, where asked for or where logits are large"},
    {"assign-formats", assign_formats, "which arrays are bf16 or fp16"},
    {"weigh-rows", weigh_rows, "the loss of the rows that count, to evaluate a batch that is padded"},
    {"group-parameters", group_parameters, "parameters whose rate or decay differs"},
    {"declare-state", declare_state, "parameters in their layouts, gradients, the optimizer's state, scalars"},
    {"differentiate", differentiate, "adjoints and gradients, in reverse"},
    {"emit-updates", emit_updates, "norms, the factor of clipping, the optimizer's rule"},
    {"shard-updates", shard_updates, "each worker's part of norms and updates; a slot for every norm"},
    {"infer-natures", infer_natures, "which layers are pointwise, or need whole rows, by what they compute"},
    {"infer-reads", infer_reads, "what each operation really reads of what it is offered"},
    {"rematerialise", rematerialise, "values that the backward pass computes again"},
    {"drop-dead", drop_dead, "drops those of them that nobody reads"},
    {"defer-updates", defer_updates, "updates that wait for the next use of their parameter"},
    {"fuse", fuse, "operations that share a kernel: defaults, then the schedule's lines"},
    {"read-sources", read_sources, "who recomputes an unstored value also reads its inputs"},
    {"place-updates", place_updates, "updates in the kernels of their gradients, where that is legal and pays"},
    {"select-norms", select_norms, "keeps one way to each norm: from the stored gradient, or without it"},
    {"join-updates", join_updates, "one kernel for the updates of several parameters, whose arrays lie side by side"},
    {"make-views", make_views,
     "reshapes and slices share the array of what they are taken from: no kernel copies them"},
    {"order", order_kernels,
     "orders kernels, so that all is written before it is read, names their anchors and numbers them"},
    {"sum-over-workers", sum_over_workers,
     "adds gradients over workers as soon as they are whole, unless their update adds them"},
    {"select-dialects", select_dialects, "what computes each product"},
    {"plan-memory", plan_memory, "gives activations their places in one arena; again once kernels are compiled"},
};

}  // namespace

std::span<const NamedPass> passes() { return list; }

bool verifies() {
#ifdef CRYOLITE_VERIFY
    return true;
#else
    static const char *asked = std::getenv("CRYOLITE_VERIFY");
    return asked && *asked && *asked != '0';
#endif
}

StepProgram lower(const Context &cx) {
    StepProgram p = trace(cx);
    if (cx.after) cx.after(p, "trace");
    for (const NamedPass &pass : list) {
        try {
            pass.run(p, cx);
        } catch (const Error &) {
            if (cx.refused) cx.refused(p, pass.name);
            throw;
        }
        if (verifies()) ir::verify(p, pass.name);
        if (cx.after) cx.after(p, pass.name);
    }
    return p;
}

}  // namespace cryolite::compiler
