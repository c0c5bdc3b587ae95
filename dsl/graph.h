#pragma once
// The trace of a model: which layer was called on which tensors. No Halide Func is built here.

#include <Halide.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/shape.h"

namespace cryolite {

class Layer;
class Graph;

/// A value of the model while it is traced: an index into its graph.
class Tensor {
public:
    const Shape &shape() const;
    Halide::Type type() const;
    /// The path of the layer that made it, or what the model calls its input.
    const std::string &name() const;
    int id() const { return id_; }
    Graph &graph() const { return *graph_; }

private:
    friend class Graph;
    Tensor(Graph *graph, int id) : graph_(graph), id_(id) {}
    Graph *graph_;
    int id_;
};

/// x + y, elementwise (a residual connection).
Tensor operator+(const Tensor &x, const Tensor &y);
/// k x, elementwise. Errors: k is not finite.
Tensor operator*(double k, const Tensor &x);
inline Tensor operator*(const Tensor &x, double k) { return k * x; }

class Graph {
public:
    struct Value {
        std::string name;
        Shape shape;
        Halide::Type type;
        int producer = -1;                 ///< index of the call that made it, -1 for an input of the model
        int part_of = -1;                  ///< the value of which this one is some rows, in place; -1: none
        int64_t begin = 0;                 ///< elements of that value before these rows
        std::vector<float> constant = {};  ///< the elements, if the value is a constant
    };
    struct Call {
        Layer *layer;
        std::vector<int> inputs;
        int output;
    };

    /// An input that a loss reads as ids of classes, and how much each row counts according to its id.
    struct Ids {
        std::string loss;                    ///< path of the layer
        int value;                           ///< the input that holds the ids
        int classes = 0;                     ///< ids are 0 ... classes - 1; 0: they are any numbers
        std::optional<double> ignored = {};  ///< and this one, whose rows do not count
        int class_weights = -1;              ///< value [classes]: how much the rows of each class count; -1: each 1
        int mean_weight = -1;  ///< input [1]: the mean of what the rows of the whole batch count; -1: no layer reads it
    };

    /// A new input of the model (tokens, features, targets).
    Tensor input(const std::string &name, const Shape &shape, Halide::Type type);
    /// A constant, float32; `elements` innermost dimension first. Errors: their number does not fit the shape.
    Tensor constant(const std::string &name, const Shape &shape, std::vector<float> elements);
    /// The input, int32 [mode_words], in which the runtime describes the pass that it runs (dsl/mode.h). All calls
    /// return the same input.
    Tensor mode();
    static constexpr int mode_words = 5;
    bool is_mode(int value) const { return value == mode_; }
    /// Records what a loss reads as ids. Before a step, the runtime refuses other ids and computes how much rows count.
    /// Errors: rows are to be weighed by ids that are not the model's targets.
    void takes(const Ids &ids);
    /// Reports `x` beside the loss; it has no part in training. `x` is [1], a mean over rows. Errors: another shape, or
    /// a second metric of this name.
    void metric(const std::string &name, const Tensor &x);
    struct Metric {
        std::string name;
        int value;
    };
    /// Records a call and infers the shape of its result. Errors name the layer, found and expected.
    Tensor call(Layer &layer, const std::vector<Tensor> &inputs);
    /// Rows begin ... begin + count - 1 of `x`, not copied. `x` is folded to `rank` dimensions; the last counts rows.
    Tensor rows(const Tensor &x, int rank, int begin, int count);
    /// Takes ownership of a layer that the trace itself made (an addition, say).
    Layer &own(std::unique_ptr<Layer> layer);
    bool owns(const Layer &layer) const;

    // For passes that simplify the trace.
    /// Replaces the layer and the inputs of a call. Errors: its output would have another shape.
    void redo(int call, Layer &layer, const std::vector<int> &inputs);
    /// Removes values, and the calls that make them. `instead[v]` is v where value v stays; an older value that stands
    /// for v; or -1 where nobody reads v. Returns the new number of each value, or of the one that stands for it; -1:
    /// none.
    std::vector<int> drop(const std::vector<int> &instead);

    /// Errors: a layer that was called has been destroyed.
    void check_layers_live() const;

    Tensor tensor(int value) { return Tensor(this, value); }
    const std::vector<Value> &values() const { return values_; }
    const std::vector<Call> &calls() const { return calls_; }
    const std::vector<Ids> &ids() const { return ids_; }
    const std::vector<Metric> &metrics() const { return metrics_; }

private:
    std::vector<Value> values_;
    std::vector<Ids> ids_;
    std::vector<Metric> metrics_;
    std::vector<Call> calls_;
    struct Called {
        std::string path;
        std::weak_ptr<const void> lifetime;
    };
    std::vector<Called> called_;  ///< the layers of all calls that were traced
    std::vector<std::unique_ptr<Layer>> owned_;
    int mode_ = -1;  ///< the value that mode() returns; -1: not asked for yet
};

/// Reports `x` beside the loss, in steps and evaluations, under this name: metric("accuracy", accuracy(y, targets)).
inline void metric(const std::string &name, const Tensor &x) { x.graph().metric(name, x); }

}  // namespace cryolite
