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

/// A Func with known extents, as a layer reads it. Its type is float32, in whatever format it is stored, and float64
/// where gradients are checked: constants in a layer take its type, cast(x.type(), 0).
struct Array : Func {
    Shape shape;
    std::optional<Func> half = {};  ///< the same values in bf16 or fp16, where they are stored or rounded so
    Array() = default;
    Array(const Func &f, Shape s) : Func(f), shape(std::move(s)) {}
    int extent(int d) const { return shape[d]; }
};

/// The inputs and the output of one call of a layer, as its gradient reads them.
struct Call {
    std::vector<Array> inputs;
    Array output;
    const Array &input(int k = 0) const { return inputs.at(k); }
};

/// One factor of a gradient that is a sum over rows of outer products. f(k, m) is element k of the vector of row m.
/// Where the vectors are `one_hot`, f(m) is the index of the only 1 of row m.
struct Factor {
    Func f;
    int extent;
    bool one_hot = false;
};
/// d(w)(i, j) = sum over rows m of first(i, m) second(j, m). The norm follows from the factors alone (ghost_norm.h).
struct Factors {
    Factor first, second;
    int rows;
};

/// The parameters of a layer that computes y(o, r) = sum over i of W(o, i) x(i, r), plus b(o) where it has a bias, and
/// the gradients of this formula. Other dialects may then compute the layer.
struct ProductLayer {
    const Parameter *weight, *bias = nullptr;
    int out_dim = 0;  ///< the dimension of the weight that `o` indexes
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
    /// Whether its parameters' gradients add at indices that depend on data: complete only after the last row.
    virtual bool scatters() const { return false; }
    /// Whether every row of its output (all dimensions but the innermost count rows) is computed from the same row of
    /// its input alone.
    virtual bool by_rows() const { return nature() == Nature::pointwise || nature() == Nature::rowwise; }
    /// Whether its output is one number: the mean over rows of a value that each row of its inputs has.
    virtual bool mean_of_rows() const { return false; }
    /// Whether input k has a row for each row of the others; false: it is the same for all rows.
    virtual bool has_rows(int) const { return true; }
    /// Whether a gradient of input k is taken; false: the layer treats it as a constant.
    virtual bool differentiates(int) const { return true; }
    /// Whether d(x)(v, r) of input k reads x at (v, r) and in sums along row r, and nowhere else. Loops that
    /// compute the sums of a row before its elements may then store the adjoint where x is.
    virtual bool adjoint_replaces(int) const { return false; }
    /// For layers without parameters: their options as text. Two layers of one kind with equal text have equal outputs
    /// for equal inputs, so that one call serves for both. None: the layer equals no other.
    virtual std::optional<std::string> attributes() const { return std::nullopt; }
    /// Where its weight and bias are, if it is a matrix product.
    virtual std::optional<ProductLayer> product() const { return std::nullopt; }
    /// Floating-point operations of a forward call on an input of this shape.
    virtual double flops(const Shape &x) const { return double(x.size()); }
    /// Floating-point operations of the gradient with respect to its input (`of_input`) or to its parameters.
    virtual double gradient_flops(const Shape &x, bool of_input) const;

    // Number formats.
    /// Its row of the cast table. By default the layer reads and computes fp32.
    virtual CastRow cast_row() const { return CastRow::other; }
    /// An exception from the model's format: fp32 for all its values, or casts in place of those of the cast table.
    void numerics(Format f) { format_ = f; }
    void numerics(const Casts &casts) { casts_ = casts; }
    /// Which of its values are in the model's format. Errors: numerics() gave it a narrow format other than this one.
    Casts casts_in(Format model) const;
    /// Whether numerics() made an exception for this layer.
    bool has_own_casts() const { return format_ == fp32 || casts_; }

    // The algorithm.
    virtual Func forward(const std::vector<Array> &x) { return forward(x.at(0)); }
    virtual Func forward(Array x);
    /// Defines d(x) for its inputs and d(w) for its parameters from the adjoint `dy` of its output.
    /// Left out, the gradient is derived from `forward` (dsl/derive.h). Errors: an operation in it has no rule there.
    virtual void backward(const Call &call, Array dy) { derive(call, dy); }

    /// Whether `factors` gives the gradient of a parameter (its own or a shared one). Exact clipping then needs no
    /// stored gradient.
    virtual bool factored(const Parameter &) const { return false; }
    virtual Factors factors(const Parameter &w, const Call &call, const Array &dy);

    /// The new value of element `at` of a state after a call in training, from its `old` value: running statistics, for
    /// example. It may read the inputs and the output of the call, and states only through `old`.
    virtual Expr next(const LayerState &state, const Expr &old, const std::vector<Var> &at, const Call &call);

    // For those who build kernels.
    Tensor operator()(const Tensor &x) { return x.graph().call(*this, {x}); }
    /// For layers whose products have no weight as a factor: how the kernel that is built next reads the factors.
    void half_factors(const HalfFactors &h) { half_factors_ = h; }
    const std::vector<Parameter *> &parameters() const { return parameters_; }
    /// Expires with the layer.
    std::weak_ptr<const void> lifetime() const { return lifetime_; }
    /// Freezes all of its parameters, those shared with other layers too; `freeze(false)` trains them again.
    void freeze(bool frozen = true, std::source_location where = std::source_location::current()) {
        for (Parameter *w : parameters_) w->freeze(frozen, where);
    }
    /// The type's name without namespace: "Linear". Loop schedules are found by it.
    std::string kind() const;
    /// Builds the gradient. Returns its Funcs by name: "d_" before the name of an input's Func or of a parameter.
    std::map<std::string, Func> gradient(const Call &call, const Array &dy);
    /// The same, but derived even where `backward` is written: for comparison.
    std::map<std::string, Func> derived_gradient(const Call &call, const Array &dy);

protected:
    /// The Func of the gradient with respect to an input or a parameter, for `backward` to define.
    Func &d(const Func &x) { return slot("d_" + x.name()); }
    Func &d(const Parameter &w) { return slot("d_" + w.name()); }
    /// The same, but the Func is named `called` in kernels, and not after the parameter.
    Func &d(const Parameter &w, const std::string &called) { return slot("d_" + w.name(), called); }
    /// Uses a parameter that belongs to another layer.
    void share(Parameter &w) { parameters_.push_back(&w); }
    /// Takes over another layer's exceptions from the model's format.
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
