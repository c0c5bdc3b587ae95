#pragma once
// What a pass is given: the program, and the context that none of them changes.

#include <functional>

#include "dsl/model.h"
#include "dsl/optimizer.h"
#include "bundle/param_group.h"
#include "generators/ir/program.h"
#include "schedules/step_schedule.h"

namespace cryolite::compiler {

using ir::CallId, ir::KernelId, ir::LayerId, ir::OpId, ir::ParamId, ir::ValueId;

/// A program with the layers and parameters that its numbers stand for.
struct StepProgram : ir::Program {
    Graph graph;  ///< its calls and values have the numbers that the program's have
    std::map<const Layer *, LayerId> layer_ids;
    std::map<const Parameter *, ParamId> parameter_ids;
    std::vector<Parameter *> sources;  ///< of parameters, by ParamId
    Optimizer *optimizer = nullptr;
    const Step *schedule = nullptr;
    Format format = fp32;
    bool tfloat32 = false;  ///< as StepOptions have it

    const std::string &traced_name(ValueId v) const { return graph.values()[size_t(v.index)].name; }
    Layer &source(CallId c) const { return *graph.calls()[size_t(c.index)].layer; }
    Parameter &source(ParamId w) const { return *sources[size_t(w.index)]; }
    /// A layer in what is known of it: the same whenever the same model is traced, which makes some layers anew.
    std::string layer_key(CallId c) const { return fmt::format("{} {}", calls[c].layer.index, layer(c).kind); }
};

/// What the command asked of the step, beyond the model's own parameters.
struct StepOptions {
    bool clip = false;         ///< clip gradients by their global norm
    bool accumulate = false;   ///< several micro-batches in a step
    bool finite_check = true;  ///< in 16 bits an update is withheld where a gradient is not finite
    std::string update = "separate";
    int workers = 1;     ///< whose gradients are added
    int parts = 0;       ///< of a batch, whose gradients are added in a tree: a multiple of workers; 0: one for each
    bool groups = true;  ///< layers share kernels
    bool views = true;   ///< what moves no element is no copy; false: it is, and shares kernels as other layers do
    int head_rows = -1;  ///< of a chunk of the head and its loss; 0: they are whole, -1: whole while that is small
    std::string dialect = "halide";             ///< what computes products where no line says it and it can
    bool tfloat32 = false;                      ///< a dialect may round the factors of products to 10 bits
    std::vector<std::string> freeze = {};       ///< patterns of parameters that are not trained: "h.*.mlp.*"
    std::vector<ParamGroup> param_groups = {};  ///< of the program, then of the command
    std::set<CallId> remat = {};  ///< calls whose output is materialised again, beside those that the schedule names
};

/// Which of the values that it is offered each of these operations reads.
using ReadsOracle = std::function<std::vector<std::vector<ValueId>>(const StepProgram &, const std::vector<OpId> &)>;
/// What an algorithm computes, whatever its layer says of itself.
struct ComputedNature {
    Nature nature = Nature::anchor;
    std::string witness = {};  ///< what makes it no pointwise one: "element (i, r) of its result reads 'up' at (0, r)"
    bool is_declared_only = false;  ///< pointwise or rowwise where the layer says so, else it is not taken for that
};
/// Of the result of each of these operations; nothing where it cannot be built.
using NatureOracle =
    std::function<std::vector<std::optional<ComputedNature>>(const StepProgram &, const std::vector<OpId> &)>;
/// What an algorithm computes of y(o, r) = sum over i of W(o, i) x(i, r), plus b(o).
struct ComputedProduct {
    bool holds = false;          ///< it is that, with the gradients that follow
    std::string witness = {};    ///< else: what it is not
    int weight = -1, bias = -1;  ///< which of the layer's parameters W and b are; -1: none
    bool in_innermost = false;   ///< W is [in, out], not [out, in]
};
struct AskedLayer {
    Layer *layer;
    Shape input;
};
/// Of each of these layers; nothing where it cannot be built.
using ProductOracle = std::function<std::vector<std::optional<ComputedProduct>>(const std::vector<AskedLayer> &)>;
/// A constant of the program, innermost first.
struct ConstantArray {
    Shape shape;
    std::vector<float> elements;
};
/// What a layer without parameters makes of constants.
using ConstantOracle = std::function<std::vector<float>(Layer &, const std::vector<ConstantArray> &)>;
/// What the oracles have said, each by signatures of its own.
struct KnownLayers {
    std::map<std::string, std::vector<bool>> reads;  ///< which of its offered values an operation reads, in their order
    std::map<std::string, std::optional<ComputedNature>> natures;
    std::map<std::string, std::optional<ComputedProduct>> products;
    std::map<std::string, std::vector<float>> constants;
};

struct Context {
    Model &model;
    Optimizer &optimizer;
    const Step &schedule;
    StepOptions options = {};
    ReadsOracle oracle;
    NatureOracle natures = {};      ///< none: what layers say of themselves is believed
    ProductOracle products = {};    ///< none: only what says that it is a product is one
    ConstantOracle constants = {};  ///< none: constants are not folded
    KnownLayers *known = nullptr;   ///< null: the oracles are asked anew
    /// Called once all arrays of the model and its state are known, to refuse what cannot fit.
    std::function<void(const StepProgram &)> sized = {};
    /// Called after each pass with its name.
    std::function<void(const StepProgram &, const std::string &)> after = {};
    /// Called with the name of a pass that refuses the step, whose program it may have left unfinished.
    std::function<void(const StepProgram &, const std::string &)> refused = {};

    /// Whether updates wait for the norms of gradients.
    bool takes_norms(const StepProgram &p) const {
        return options.clip || p.guarded || optimizer.takes(cryolite::Norm::gradient);
    }
};

using Pass = void (*)(StepProgram &, const Context &);

/// Adds an operation to an entry.
OpId add_op(StepProgram &p, const std::string &entry, ir::Op op);
/// The operations of an entry; none where there is no such entry.
const std::vector<OpId> &ops_of(const StepProgram &p, const std::string &entry);
/// An array between operations.
ValueId add_activation(StepProgram &p, const std::string &name, const Shape &shape, ir::DataType type);
/// Makes a value a part of another one, or all of it in another shape.
void become_part(StepProgram &p, ValueId part, ValueId whole, int64_t begin);
/// All that an operation may read, by its kind: what the layer of its call is offered.
std::vector<ir::Ref> offered(const StepProgram &p, const ir::Op &op);
Halide::Type halide_type(const ir::DataType &t);
ir::DataType data_type(const Halide::Type &t);

}  // namespace cryolite::compiler
