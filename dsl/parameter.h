#pragma once
// An array of a layer: a trained parameter or a state. Algorithms index it logically; how its elements are stored is
// the schedule's choice.

#include <Halide.h>

#include <optional>
#include <string>
#include <vector>

#include "dsl/shape.h"
#include "dsl/source.h"

namespace cryolite {

class Layer;

/// How a parameter is initialised.
struct Init {
    enum Rule { constant, normal } rule = constant;
    double value = 0;  ///< the constant, or the standard deviation
};
inline const Init zeros{Init::constant, 0}, ones{Init::constant, 1};
/// N(0, std^2).
inline Init normal(double std) { return {Init::normal, std}; }
/// He initialisation, N(0, 2 / fan_in): Delving Deep into Rectifiers, 2015.
inline Init he(int fan_in) { return normal(std::sqrt(2.0 / fan_in)); }

class Parameter {
public:
    /// `name` is its name in checkpoints, after the layer's path; `shape` is innermost extent first.
    /// `symbol` is the name of its Func in kernels, where that differs.
    Parameter(Layer *owner, std::string name, Shape shape, Init init, std::string symbol = "")
        : Parameter(owner, std::move(name), std::move(shape), init, std::move(symbol), false) {}
    Parameter(const Parameter &) = delete;
    ~Parameter();

    /// All parameters that exist, in the order of construction: a parameter that no traced layer has is a mistake.
    static const std::vector<const Parameter *> &living();

    const std::string &name() const { return name_; }
    const std::string &symbol() const { return symbol_.empty() ? name_ : symbol_; }
    void call_in_kernels(std::string symbol) { symbol_ = std::move(symbol); }
    const Shape &shape() const { return shape_; }
    const Init &init() const { return init_; }
    /// Full name: "h.0.mlp.c_fc.weight".
    std::string path() const;
    Layer &owner() const { return *owner_; }
    /// Whether it is a LayerState.
    bool is_state() const { return state_; }

    /// Stops training the parameter: it keeps its value, and the step has no gradient, update or optimizer state for
    /// it, nor an adjoint that only its gradient needs. `freeze(false)` trains it again. Layer::freeze is for all
    /// parameters of a layer, the flag --freeze PATTERN for those whose name matches.
    void freeze(bool frozen = true, std::source_location where = std::source_location::current()) {
        frozen_ = frozen ? place_of(where) : "";
    }
    /// Where it was frozen: "my_model.cpp:12"; empty: it is trained.
    const std::string &frozen() const { return frozen_; }

    /// The element at logical indices, as an expression of the kernel that is being built.
    template <typename... Index> Halide::FuncRef operator()(Index &&...index) const {
        return func()(Halide::Expr(std::forward<Index>(index))...);
    }
    /// The Func that stands for this parameter in the kernel that is being built.
    const Halide::Func &func() const;
    void bind(const Halide::Func &f) { func_ = f; }
    void unbind() { func_.reset(); }

protected:
    Parameter(Layer *owner, std::string name, Shape shape, Init init, std::string symbol, bool state);

private:
    Layer *owner_;
    std::string name_, symbol_, frozen_;
    Shape shape_;
    Init init_;
    const bool state_;
    std::optional<Halide::Func> func_;
};

/// An array that a layer keeps from step to step and that no optimizer trains, such as running statistics. Algorithms
/// read it like a parameter. `Layer::next` gives its value after a call in training. Checkpoints hold it beside the
/// weights, by its name. Every element is `value` at first.
struct LayerState : Parameter {
    LayerState(Layer *owner, std::string name, Shape shape, double value)
        : Parameter(owner, std::move(name), std::move(shape), {Init::constant, value}, "", true) {}
};

}  // namespace cryolite
