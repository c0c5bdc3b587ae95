// Which arrays of a step are bf16: from the model's format and the cast table's lines of the layers around each.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

std::vector<std::vector<LayerId>> readers_of_values(const StepProgram &p) {
    std::vector<std::vector<LayerId>> list(size_t(p.values.size()));
    for (const ir::Call &c : p.calls)
        for (ValueId x : c.inputs) list[size_t(x.index)].push_back(c.layer);
    return list;
}

}  // namespace

/// A value is bf16 where the layer that makes it may store it so and all that read it read bf16; its adjoint where it
/// has one reader: sums of several are fp32. Results of the model are fp32.
/// A weight whose factors products round is a split master.
void assign_formats(StepProgram &p, const Context &) {
    const auto readers = readers_of_values(p);
    auto may_be_half = [&](ValueId v) { return p.values[v].producer && p.layer(p.values[v].producer).half_output; };
    auto half = [&](ValueId v) {
        const auto &list = readers[size_t(v.index)];
        return may_be_half(v) && !list.empty() &&
               std::ranges::all_of(list, [&](LayerId l) { return p.layers[l].half_inputs; });
    };
    for (ValueId v : p.values.ids()) {
        ir::Value &value = p.values[v];
        if (may_be_half(v) && readers[size_t(v.index)].size() == 1) value.adjoint = ir::bfloat16;
        if (!p.is_result(v) && half(p.base(v))) value.type = ir::bfloat16;
    }
    for (const ir::Layer &l : p.layers)
        for (ParamId w : l.parameters)
            if (l.half_products && p.parameters[w].shape.rank() == 2 && !p.parameters[w].state)
                p.parameters[w].split = true;
}

}  // namespace cryolite::compiler
