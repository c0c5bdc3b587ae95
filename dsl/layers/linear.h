#pragma once

#include "dsl/layer.h"

namespace cryolite {

struct LinearOptions {
    Init init = normal(0.02);
    bool bias = true;
    /// W is [in, out], as PyTorch's Linear has it, and not [out, in], as GPT-2's checkpoints have it.
    bool in_innermost = false;
};
/// No bias, and W as PyTorch has it: the products of Llama and similar models.
inline const LinearOptions no_bias{.bias = false, .in_innermost = true};

/// y = W x + b, where a derived class holds the parameters.   x: [in, ...rows] -> y: [out, ...rows].
/// W: [out, in], or [in, out] where in_innermost; b: [out], or none.
struct MatrixProduct : Layer {
    const int in, out;
    const bool in_innermost;

    MatrixProduct(std::string path, int in, int out, bool in_innermost)
        : Layer(std::move(path)), in(in), out(out), in_innermost(in_innermost) {}
    virtual const Parameter &weight() const = 0;
    virtual const Parameter *bias() const = 0;  ///< null: none

    Shape shape(const Shape &x) const override {
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        return x.with(0, out);
    }
    bool by_rows() const override { return true; }
    std::optional<ProductLayer> product() const override { return {{&weight(), bias(), in_innermost ? 1 : 0}}; }
    CastRow cast_row() const override { return CastRow::product; }
    double flops(const Shape &x) const override { return 2.0 * x.size() * out; }

    Func forward(Array x) override {
        Func y("y"), w = by_out();
        Var o("o"), r("r");
        RDom i(0, in, "i");
        y(o, r) = bias() ? Expr((*bias())(o)) : cast(x.type(), 0);
        y(o, r) += w(o, i) * x(i, r);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func w = by_out(), dW("dW");
        Var i("i"), o("o"), r("r");
        RDom n(0, out, "n"), m(0, dy.extent(1), "m");
        d(x)(i, r) += w(n, i) * dy(n, r);
        Func &of_weight = d(weight(), "d_weight"), &product = in_innermost ? dW : of_weight;
        product(o, i) += x(i, m) * dy(o, m);
        if (in_innermost) of_weight(i, o) = dW(o, i);
        if (bias()) d(*bias(), "d_bias")(o) += dy(o, m);
    }
    bool factored(const Parameter &w) const override { return &w == &weight(); }
    Factors factors(const Parameter &, const Call &call, const Array &dy) override {
        const Factor of_in{call.input(), in}, of_out{dy, out};
        if (in_innermost) return {of_in, of_out, dy.extent(1)};
        return {of_out, of_in, dy.extent(1)};
    }

private:
    /// The weight as w(out, in), in whichever order its own indices are.
    Func by_out() const {
        if (!in_innermost) return weight().func();
        Func w("W");
        Var o("o"), i("i");
        w(o, i) = weight()(i, o);
        return w;
    }
};

/// y = W x + b.   x: [in, ...rows] -> y: [out, ...rows].   W: [out, in], or [in, out] in_innermost; b: [out], or none.
struct Linear : MatrixProduct {
    Parameter W;
    std::optional<Parameter> b;

    Linear(std::string path, int in, int out, LinearOptions o)
        : MatrixProduct(std::move(path), in, out, o.in_innermost), W{this, "weight",
                                                                     o.in_innermost ? Shape{in, out} : Shape{out, in},
                                                                     o.init, o.in_innermost ? "table" : "W"} {
        if (o.bias) b.emplace(this, "bias", Shape{out}, zeros);
    }
    Linear(std::string path, int in, int out, Init init = normal(0.02))
        : Linear(std::move(path), in, out, LinearOptions{.init = init}) {}
    const Parameter &weight() const override { return W; }
    const Parameter *bias() const override { return b ? &*b : nullptr; }
};

/// Stands for another layer that was found to compute such a product: it has that layer's parameters, and is computed
/// as a Linear is.
struct ProductOf : MatrixProduct {
    Layer &of;

    ProductOf(Layer &of, Parameter &w, Parameter *b, bool in_innermost)
        : MatrixProduct(of.path, w.shape()[in_innermost ? 0 : 1], w.shape()[in_innermost ? 1 : 0], in_innermost),
          of(of), w(w), b(b) {
        share(w), w.call_in_kernels(in_innermost ? "table" : "W");
        if (b) share(*b), b->call_in_kernels("bias");
        take_numerics(of);
    }
    const Parameter &weight() const override { return w; }
    const Parameter *bias() const override { return b; }
    Shape shape(const std::vector<Shape> &x) const override { return of.shape(x); }
    CastRow cast_row() const override { return of.cast_row(); }

private:
    Parameter &w, *b;
};

/// The layer as the model has it: for a ProductOf, the layer that it stands for.
inline const Layer &as_written(const Layer &l) {
    const auto *product = dynamic_cast<const ProductOf *>(&l);
    return product ? product->of : l;
}

}  // namespace cryolite
