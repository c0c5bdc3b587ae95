#pragma once
// Compares the gradients of one layer with finite differences, in float64.

#include <cstdint>
#include <map>

#include "dsl/layer.h"

namespace cryolite::compiler {

/// How far one gradient of a layer is from what it should be, relative to its norm.
struct GradientError {
    std::string name;        ///< "d(x0)", "d(weight)"
    double differences = 0;  ///< from central finite differences along random directions
    double derived = -1;     ///< from the derived gradient; -1: not asked for
};

/// Runs a layer by itself on random values:
///     LayerTester(layer).input({13, 7}).ids({7}, 11).check()
/// Funcs are built by `measure` and `output` in the process that calls them, by `check` in a child.
class LayerTester {
public:
    explicit LayerTester(Layer &layer, uint64_t seed = 1) : layer(layer), seed(seed) {}

    /// The next input: float64, random, no element near 0 (where some layers have a kink).
    LayerTester &input(const Shape &s) { return add({s, {}, 0}); }
    /// The next input, with these values.
    LayerTester &input(const Shape &s, std::vector<double> values) { return add({s, std::move(values), 0}); }
    /// The next input: int32, random in 0 ... bound - 1.
    LayerTester &ids(const Shape &s, int bound) { return add({s, {}, bound}); }
    LayerTester &ids(const Shape &s, int bound, std::vector<double> values) {
        return add({s, std::move(values), bound});
    }
    /// Gives a parameter these values.
    LayerTester &weight(const std::string &name, std::vector<double> values) {
        return weights[name] = std::move(values), *this;
    }
    /// Compares with the derived gradient too.
    LayerTester &derived() { return with_derived = true, *this; }

    /// One entry for each float input and each parameter.
    std::vector<GradientError> measure() const;
    /// The same in a child process, within a time limit; a crash there is an Error here.
    std::vector<GradientError> check(int time_limit = 120) const;
    /// The output of forward, row-major.
    std::vector<double> output() const;
    /// The gradient of input `k` where the adjoint of the output is `dy`, row-major.
    std::vector<double> gradient(int k, const std::vector<double> &dy) const;
    /// A digest of the forward and gradient Funcs, which a child process builds, and of the shapes that they are built
    /// for. The result of `check` for one layer holds for all layers of the same digest.
    std::string algorithm(int time_limit = 120) const;

private:
    struct Given {
        Shape shape;
        std::vector<double> values;  ///< empty: random
        int bound;                   ///< that ids are below; 0: floating point
    };
    /// Builds the layer's Funcs in this process and returns what `use` returns for them.
    template <typename Use> auto built(const Use &use) const;
    LayerTester &add(Given g) { return given.push_back(std::move(g)), *this; }

    Layer &layer;
    uint64_t seed;
    bool with_derived = false;
    std::vector<Given> given;
    std::map<std::string, std::vector<double>> weights;  ///< of parameters by name; others are random
};

}  // namespace cryolite::compiler
