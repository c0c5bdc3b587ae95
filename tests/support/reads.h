#pragma once
// What operations read, from a table instead of from building them: for tests of passes, in milliseconds.

#include "generators/passes/pass.h"

namespace cryolite::test {

using namespace compiler;

/// As the library's layers do; of a layer that it does not know, all that it is offered.
inline std::vector<std::vector<ValueId>> reads_of_kinds(const StepProgram &p, const std::vector<OpId> &ops) {
    std::vector<std::vector<ValueId>> answers;
    for (OpId id : ops) {
        const ir::Op &op = p.ops[id];
        auto &reads = answers.emplace_back();
        const auto use = ir::use_of(op);
        const std::string kind = use ? p.layer(use->call).kind : "";
        const bool product = kind == "Linear" || kind == "TiedHead", of_input = ir::is<ir::InputGrad>(op);
        const bool normal = ir::is<ir::ParamGrad>(op) && p.parameters[ir::parameter_of(op)].shape.rank() > 1;
        for (const ir::Ref &r : op.reads) {
            const ir::Value &v = p.values[r.value];
            const bool input = use && std::ranges::count(p.calls[use->call].inputs, r.value);
            const bool output = use && r.value == p.calls[use->call].output;
            if (product && v.role == ir::Role::parameter && !of_input) continue;
            if (product && v.role != ir::Role::parameter && output) continue;
            if (product && input && !normal) continue;
            if (kind == "WeightedSum" && (input || output)) continue;  // of the losses of blocks
            if ((kind == "Relu" || kind == "Gelu") && output) continue;
            reads.push_back(r.value);
        }
    }
    return answers;
}

}  // namespace cryolite::test
