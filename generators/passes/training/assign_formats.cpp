// Which arrays of a step are bf16 or fp16. This follows from the model's format and from the cast table's rows for the
// layers that make and read an array.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

class AssignFormats {
public:
    explicit AssignFormats(StepProgram &p)
        : p(p), name(format_name(p.format)), half(data_type(storage_type(p.format))), readers(size_t(p.values.size())) {
        for (const ir::Call &c : p.calls)
            for (ValueId x : c.inputs) readers[size_t(x.index)].push_back(c.layer);
    }
    void run(bool gpu) {
        for (ValueId v : p.values.ids()) {
            assign_adjoint(v);
            assign_value(v);
        }
        for (const ir::Layer &l : p.layers)
            for (ParamId w : l.parameters)
                if (l.half_products && p.parameters[w].shape.rank() == 2 && !p.parameters[w].state)
                    p.parameters[w].narrow = true, p.parameters[w].format_why = "products of '" + l.path + "' read it";
        if (gpu) assign_biases();
        for (ir::Parameter &w : p.parameters)
            if (!w.narrow) w.format_why = fmt::format("no product reads it in {}", name);
    }

private:
    StepProgram &p;
    const std::string name;
    const ir::DataType half;
    std::vector<std::vector<LayerId>> readers;  ///< by value

    /// Why the layer that makes a value does not store it in the narrow format; empty: it may.
    std::string made_wide(ValueId v) const {
        const CallId c = p.values[v].producer;
        if (!c) return p.values[v].part_of ? "it is a part of another value" : "no layer makes it";
        const ir::Layer &l = p.layer(c);
        return l.half_output ? "" : fmt::format("'{}' makes it in fp32: {}", l.path, l.casts_why);
    }
    std::string kept_wide(ValueId v) const {
        if (p.is_result(v)) return "it is a result of the model";
        const ValueId whole = p.base(v);
        if (std::string why = made_wide(whole); !why.empty()) return why;
        const auto &list = readers[size_t(whole.index)];
        if (list.empty()) return "no layer reads it whole";
        for (LayerId l : list)
            if (!p.layers[l].half_inputs)
                return fmt::format("'{}' reads it in fp32: {}", p.layers[l].path, p.layers[l].casts_why);
        return "";
    }
    void assign_value(ValueId v) {
        ir::Value &value = p.values[v];
        value.format_why = kept_wide(v);
        if (!value.format_why.empty()) return;
        value.type = half;
        value.format_why = fmt::format("{} makes it, and all that read it take {}",
                                       p.layer(p.values[p.base(v)].producer).casts_why, name);
    }
    /// Makes the bias of a narrow product narrow, since libraries of GPUs add a bias in the format of the result.
    void assign_biases() {
        for (const ir::Call &c : p.calls)
            for (ParamId id : p.layers[c.layer].parameters) {
                ir::Parameter &w = p.parameters[id];
                if (!p.layers[c.layer].half_products || w.shape.rank() != 1 || w.state) continue;
                if (p.values[c.output].type != half) continue;
                w.narrow = true, w.format_why = fmt::format("it is added to '{}', stored so", p.values[c.output].name);
            }
    }
    /// An adjoint of several readers is their sum, and sums are fp32.
    void assign_adjoint(ValueId v) {
        ir::Value &value = p.values[v];
        const size_t count = readers[size_t(v.index)].size();
        value.adjoint_why = made_wide(v);
        if (value.adjoint_why.empty() && count != 1)
            value.adjoint_why = fmt::format("it is the sum of {} adjoints", count);
        if (!value.adjoint_why.empty()) return;
        value.adjoint = half;
        value.adjoint_why = fmt::format("{}; one layer reads the value", p.layer(value.producer).casts_why);
    }
};

}  // namespace

/// A value is narrow (bf16 or fp16) where the layer that makes it may store it so and all layers that read it read it
/// so. Its adjoint is narrow where the value has one reader: sums of several adjoints are fp32. Results of the model
/// are fp32. A weight is narrow, with a master beside it, where products that read it round their factors. On a GPU,
/// the bias of a product that is stored narrow is narrow, too.
void assign_formats(StepProgram &p, const Context &cx) {
    if (p.format != fp32) AssignFormats(p).run(cx.schedule.machine.gpu());
}

}  // namespace cryolite::compiler
