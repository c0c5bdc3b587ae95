#pragma once
// A layer: an algorithm from Funcs to a Func, its parameters, and (where it is written) its gradient.

#include <Halide.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/graph.h"
#include "dsl/nature.h"
#include "dsl/numerics.h"
#include "dsl/parameter.h"
#include "dsl/stop_gradient.h"

namespace cryolite {

using Halide::cast, Halide::clamp, Halide::Expr, Halide::Func, Halide::RDom, Halide::select, Halide::Tuple, Halide::Var;

/// A Func with known extents: what a layer reads, float32 whatever it is stored in, and float64 where gradients are
/// checked: numbers beside it take its type, cast(x.type(), 0).
struct Array : Func {
    Shape shape;
    std::optional<Func> half = {};  ///< the same in bf16 or fp16, where it is stored or rounded so
    Array() = default;
    Array(const Func &f, Shape s) : Func(f), shape(std::move(s)) {}
    int extent(int d) const { return shape[d]; }
};

/// What one call of a layer read and made, as its gradient sees it.
struct Call {
    std::vector<Array> inputs;
    Array output;
    const Array &input(int k = 0) const { return inputs.at(k); }
};

/// One side of a gradient that is a sum over rows of outer products: f(k, m), the vector of row m; or, where it is
/// `one_hot`, f(m), the place of its only 1.
struct Factor {
    Func f;
    int extent;
    bool one_hot = false;
};
/// d(w)(i, j) = sum over rows m of first(i, m) second(j, m). From it follows its norm, without the gradient itself.
struct Factors {
    Factor first, second;
    int rows;
};

/// Of a layer that is y(o, r) = sum over i of W(o, i) x(i, r), plus b(o) where it has a bias, with the gradients that
/// follow: implementations other than the kernel's own may serve it then.
struct ProductLayer {
    const Parameter *weight, *bias = nullptr;
    int out_dim = 0;  ///< dimension of the weight that is `o`
};

class Layer {
public:
    /// `path` names the layer in messages, and its parameters in checkpoints: "h.0.mlp.c_fc".
    explicit Layer(std::string path) : path(std::move(path)) {}
    Layer(const Layer &) = delete;
    virtual ~Layer() = default;

    const std::string path;

    // What a layer says of itself.
    /// Shape of the output; throws where the input does not fit. Default: that of the first input.
    virtual Shape shape(const std::vector<Shape> &x) const { return shape(x.at(0)); }
    virtual Shape shape(const Shape &x) const { return x; }
    /// The number of dimensions in which its Funcs see their data (outer ones folded); 0: any.
    virtual int rank() const { return 2; }
    virtual int input_rank(int) const { return rank(); }
    virtual int output_rank() const { return rank(); }
    virtual Nature nature() const { return Nature::anchor; }
    /// Whether its parameters' gradients add at places that depend on data: whole only after the last row.
    virtual bool scatters() const { return false; }
    /// Whether every row of its output (all dimensions but the innermost count rows) is made from that row of its input
    /// alone.
    virtual bool by_rows() const { return nature() == Nature::pointwise || nature() == Nature::rowwise; }
    /// Whether its output is one number, the mean over the rows of its inputs of what each makes.
    virtual bool mean_of_rows() const { return false; }
    /// Whether input k has a row for each row of the others; false: it is the same for all rows.
    virtual bool has_rows(int) const { return true; }
    /// Whether a gradient of input k is taken; false: the layer treats it as a constant.
    virtual bool differentiates(int) const { return true; }
    /// What tells it, beside its kind, from others that have no parameters: where these words and the inputs are equal,
    /// so are the outputs, and one call serves for all. None: it is equal to itself alone.
    virtual std::optional<std::string> attributes() const { return std::nullopt; }
    /// Where its weight and bias are, if it is a matrix product.
    virtual std::optional<ProductLayer> product() const { return std::nullopt; }
    /// Floating-point operations of a forward call on an input of this shape.
    virtual double flops(const Shape &x) const { return double(x.size()); }
    /// Those of the gradient with respect to its input (`of_input`) or to its parameters.
    virtual double gradient_flops(const Shape &x, bool of_input) const;

    // Number formats.
    /// Its row of the cast table. A layer that says nothing reads and makes fp32.
    virtual CastRow cast_row() const { return CastRow::other; }
    /// An exception from the model's format: fp32, or what the layer has in it instead of its row's line.
    void numerics(Format f) { format_ = f; }
    void numerics(const Casts &casts) { casts_ = casts; }
    /// What it has in the format of its model. Errors: the layer was given another narrow format, and a model has one.
    Casts casts_in(Format model) const;
    /// Whether a line of the model says so, not the table.
    bool has_own_casts() const { return format_ == fp32 || casts_; }

    // The algorithm.
    virtual Func forward(const std::vector<Array> &x) { return forward(x.at(0)); }
    virtual Func forward(Array x);
    /// Defines d(x) for its inputs and d(w) for its parameters from the adjoint `dy` of its output.
    /// Left out, the gradient is derived from `forward` (dsl/derive.h);
    /// what has no rule there is an error that says so.
    virtual void backward(const Call &call, Array dy) { derive(call, dy); }

    /// Whether the gradient of a parameter (its own or a shared one) is given by `factors`: exact clipping can then do
    /// without storing it.
    virtual bool factored(const Parameter &) const { return false; }
    virtual Factors factors(const Parameter &w, const Call &call, const Array &dy);

    /// The value that a state has after a call in training, at an element, from the `old` one there: running
    /// statistics, say. It may read what the call did, and no state but by `old`.
    virtual Expr next(const LayerState &state, const Expr &old, const std::vector<Var> &at, const Call &call);

    // For those who build kernels.
    Tensor operator()(const Tensor &x) { return x.graph().call(*this, {x}); }
    /// For layers whose products are not of their weights: how the kernel that is built next reads factors.
    void half_factors(const HalfFactors &h) { half_factors_ = h; }
    const std::vector<Parameter *> &parameters() const { return parameters_; }
    /// Expires with the layer.
    std::weak_ptr<const void> lifetime() const { return lifetime_; }
    /// Freezes all of its parameters, those that it shares with other layers too; or trains them again.
    void freeze(bool frozen = true, std::source_location where = std::source_location::current()) {
        for (Parameter *w : parameters_) w->freeze(frozen, where);
    }
    /// The type's name without namespace: "Linear". Loop schedules are found by it.
    std::string kind() const;
    /// Builds the gradient and returns its Funcs: by the name of the input's Func or the parameter's name.
    std::map<std::string, Func> gradient(const Call &call, const Array &dy);
    /// The same, derived even where a gradient is written: for comparison.
    std::map<std::string, Func> derived_gradient(const Call &call, const Array &dy);

protected:
    /// The Func of the gradient with respect to an input or a parameter, to be defined.
    Func &d(const Func &x) { return slot("d_" + x.name()); }
    Func &d(const Parameter &w) { return slot("d_" + w.name()); }
    /// The same, whose Func has this name in kernels, whatever the parameter's.
    Func &d(const Parameter &w, const std::string &called) { return slot("d_" + w.name(), called); }
    /// Uses a parameter that belongs to another layer.
    void share(Parameter &w) { parameters_.push_back(&w); }
    /// Has the exceptions from the model's format that another layer has.
    void take_numerics(const Layer &of) { format_ = of.format_, casts_ = of.casts_; }
    const HalfFactors &half_factors() const { return half_factors_; }
    /// Derives every gradient that is not yet defined.
    void derive(const Call &call, const Array &dy);

private:
    friend class Parameter;
    Func &slot(const std::string &name) { return slot(name, name); }
    Func &slot(const std::string &name, const std::string &called);
    std::vector<Parameter *> parameters_;
    std::map<std::string, Func> gradient_;
    std::optional<Format> format_;
    std::optional<Casts> casts_;
    HalfFactors half_factors_;
    std::shared_ptr<const char> lifetime_ = std::make_shared<char>();
};

/// A layer of two inputs.
struct Layer2 : Layer {
    using Layer::Layer;
    Func forward(const std::vector<Array> &x) final { return forward(x.at(0), x.at(1)); }
    virtual Func forward(Array x, Array y) = 0;
    Tensor operator()(const Tensor &x, const Tensor &y) { return x.graph().call(*this, {x, y}); }
};

}  // namespace cryolite
