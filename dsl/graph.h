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
        int part_of = -1;                  ///< some rows of this value, where they are
        int64_t begin = 0;                 ///< elements before them
        std::vector<float> constant = {};  ///< of an input that is always the same: its elements
    };
    struct Call {
        Layer *layer;
        std::vector<int> inputs;
        int output;
    };

    /// What a loss takes for ids among the model's targets, and how much rows count by them.
    struct Ids {
        std::string loss;                    ///< the layer's path
        int value;                           ///< the input that holds them
        int classes = 0;                     ///< ids are 0 ... classes - 1; 0: they are any numbers
        std::optional<double> ignored = {};  ///< and this one, whose rows count nothing
        int class_weights = -1;              ///< value [classes]: how much the rows of each class count; -1: 1
        int mean_weight = -1;  ///< input [1]: what a row of the whole batch counts in the mean; -1: nobody reads it
    };

    /// A new input of the model (tokens, features, targets).
    Tensor input(const std::string &name, const Shape &shape, Halide::Type type);
    /// Numbers that are always the same, float32, innermost first.
    Tensor constant(const std::string &name, const Shape &shape, std::vector<float> elements);
    /// What the runtime tells of the pass that it runs, int32 [mode_words]: dsl/mode.h. One input, however often it is
    /// asked for.
    Tensor mode();
    static constexpr int mode_words = 5;
    bool is_mode(int value) const { return value == mode_; }
    /// Records what a loss takes for ids, so that others are refused before a step and rows are weighed.
    /// Errors: rows are to be weighed by ids that are not the model's targets.
    void takes(const Ids &ids);
    /// A number that is told beside the loss, and that nobody learns from: the mean over rows of what a layer makes of
    /// each. Errors: another shape than [1], or a second one of this name.
    void metric(const std::string &name, const Tensor &x);
    struct Metric {
        std::string name;
        int value;
    };
    /// Records a call and infers the shape of its result. Errors name the layer, found and expected.
    Tensor call(Layer &layer, const std::vector<Tensor> &inputs);
    /// `count` rows from `begin` on of a value that is seen in so many dimensions, the last counting rows: no copy.
    Tensor rows(const Tensor &x, int rank, int begin, int count);
    /// Takes ownership of a layer that the trace itself made (an addition, say).
    Layer &own(std::unique_ptr<Layer> layer);
    bool owns(const Layer &layer) const;

    // For who simplifies what was traced.
    /// A call makes its output by this layer from these values, whatever it did before. Errors: in another shape.
    void redo(int call, Layer &layer, const std::vector<int> &inputs);
    /// `instead`, by value: itself, where it stays; the one that stands for it, an older one; or -1, where nobody reads
    /// it. Takes out all that do not stay, with the calls that make them. The number that each has now, or what stands
    /// for it; -1: none.
    std::vector<int> drop(const std::vector<int> &instead);

    /// Errors: a layer that was called is gone by now.
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
    int mode_ = -1;  ///< the value; -1: nobody has asked for it
};

/// Tells `x` with the loss, in steps and evaluations, by this name: metric("accuracy", accuracy(y, targets)).
inline void metric(const std::string &name, const Tensor &x) { x.graph().metric(name, x); }

}  // namespace cryolite
