#pragma once
// A call of a layer in float64, forwards and backwards.

#include <deque>

#include "generators/checks/source_array.h"

namespace cryolite::compiler {

using Numbers = std::vector<double>;

class ReferenceCall {
public:
    ReferenceCall(const Graph &g, const Graph::Call &call);

    /// Computes the call's output, in `values`, from its inputs there and from its parameters.
    void forward(std::vector<Numbers> &values, const std::map<const Parameter *, Numbers> &parameters);
    /// Adds to the adjoints of the call's inputs and to the gradients of its parameters.
    void backward(std::vector<Numbers> &adjoints, std::map<const Parameter *, Numbers> &gradients);

private:
    Layer &layer;
    const std::vector<int> reads;
    const int output;
    std::deque<SourceArray> inputs, weights;
    std::vector<const Parameter *> parameters;
    std::optional<SourceArray> dy, y;
    Halide::Pipeline made, derived;
    /// What `derived` computes: the gradient of an input or of a parameter.
    struct Gradient {
        int input = -1;
        const Parameter *parameter = nullptr;
        Numbers numbers;
        std::vector<int> extents;
    };
    std::vector<Gradient> gradients_;

    void bind(const Graph &g);
    void build();
};

}  // namespace cryolite::compiler
