#pragma once
// What a pass is given: the program, and the context, which no pass changes.

#include <functional>

#include "dsl/model.h"
#include "dsl/optimizer.h"
#include "bundle/param_group.h"
#include "generators/ir/program.h"
#include "schedules/step_schedule.h"

namespace cryolite::compiler {

using ir::CallId, ir::KernelId, ir::LayerId, ir::OpId, ir::ParamId, ir::ValueId;

/// A program with the layers and parameters that its ids stand for.
struct StepProgram : ir::Program {
    Graph graph;  ///< its calls and values have the same numbers as those of the program
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
    /// A layer's key in KnownLayers: the same in each trace of a model, although a trace makes some layers anew.
    std::string layer_key(CallId c) const { return fmt::format("{} {}", calls[c].layer.index, layer(c).kind); }
    /// The input that the result of a kernel may replace if its loops allow it, by what its layer declares; none: no
    /// input.
    ValueId replaceable_input(const ir::Kernel &k) const;
};

/// What the command asked of the step, beyond the model's own parameters.
struct StepOptions {
    bool clip = false;         ///< clip gradients by their global norm
    bool accumulate = false;   ///< several micro-batches in a step
    bool finite_check = true;  ///< in 16 bits an update is withheld where a gradient is not finite
    std::string update = "separate";
    int workers = 1;     ///< whose gradients are added
    int parts = 0;       ///< parts of a batch whose gradients are added in a tree, a multiple of workers; 0: one each
    bool groups = true;  ///< layers share kernels
    bool views = true;   ///< reshapes and slices are views; false: copies, which share kernels as other layers do
    int head_rows = -1;  ///< rows of a chunk of the head and its loss; 0: all rows, -1: all unless the logits are large
    std::string dialect = "halide";             ///< computes the products that no line is about, where it can
    bool tfloat32 = false;                      ///< a dialect may round the factors of products to 10 bits
    std::vector<std::string> freeze = {};       ///< patterns of parameters that are not trained: "h.*.mlp.*"
    std::vector<ParamGroup> param_groups = {};  ///< of the program, then of the command
    std::set<CallId> remat = {};  ///< calls whose output is rematerialised, beside those that the schedule names
};

/// For each of these operations, which of the values that it is offered it reads.
using ReadsOracle = std::function<std::vector<std::vector<ValueId>>(const StepProgram &, const std::vector<OpId> &)>;
/// The nature of an algorithm, as its Funcs show, whatever its layer declares.
struct ComputedNature {
    Nature nature = Nature::anchor;
    std::string witness = {};  ///< what makes it no pointwise one: "element (i, r) of its result reads 'up' at (0, r)"
    bool is_declared_only = false;  ///< it is taken for pointwise or rowwise only where its layer declares that
};
/// The nature of the result of each of these operations; nothing where it cannot be built.
using NatureOracle =
    std::function<std::vector<std::optional<ComputedNature>>(const StepProgram &, const std::vector<OpId> &)>;
/// Whether a layer's algorithm is y(o, r) = sum over i of W(o, i) x(i, r), plus b(o), as its Funcs show.
struct ComputedProduct {
    bool holds = false;          ///< it is, and its gradients are those of this formula
    std::string witness = {};    ///< otherwise, what shows that it is not
    int weight = -1, bias = -1;  ///< which of the layer's parameters W and b are; -1: none
    bool in_innermost = false;   ///< W is [in, out], not [out, in]
};
struct AskedLayer {
    Layer *layer;
    Shape input;
};
/// The product of each of these layers; nothing where it cannot be built.
using ProductOracle = std::function<std::vector<std::optional<ComputedProduct>>(const std::vector<AskedLayer> &)>;
/// A constant of the program, innermost first.
struct ConstantArray {
    Shape shape;
    std::vector<float> elements;
};
/// The result of a layer without parameters for constants.
using ConstantOracle = std::function<std::vector<float>(Layer &, const std::vector<ConstantArray> &)>;
/// The answers of the oracles, each by signatures of what was asked.
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
    NatureOracle natures = {};      ///< none: what layers declare is believed
    ProductOracle products = {};    ///< none: only layers that declare a product are taken for one
    ConstantOracle constants = {};  ///< none: constants are not folded
    KnownLayers *known = nullptr;   ///< null: the oracles are asked anew
    /// Called once all arrays of the model and its state are known, to refuse a step that cannot fit.
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
/// All that an operation may read, by its kind. Of the values that it is offered, a layer may read only some.
std::vector<ir::Ref> offered(const StepProgram &p, const ir::Op &op);
Halide::Type halide_type(const ir::DataType &t);
ir::DataType data_type(const Halide::Type &t);

}  // namespace cryolite::compiler
