#pragma once

#include "dsl/layer.h"

namespace cryolite {

struct LinearOptions {
    Init init = normal(0.02);
    bool bias = true;
    /// W is [in, out], as PyTorch's Linear has it, and not [out, in], as GPT-2's checkpoints have it.
    bool in_innermost = false;
};
/// No bias, and W as PyTorch has it: products of Llama and its kin.
inline const LinearOptions no_bias{.bias = false, .in_innermost = true};

/// y = W x + b.   x: [in, ...rows] -> y: [out, ...rows].   W: [out, in], or [in, out] in_innermost; b: [out], or none.
struct Linear : Layer {
    const int in, out;
    const bool in_innermost;
    Parameter W;
    std::optional<Parameter> b;

    Linear(std::string path, int in, int out, LinearOptions o)
        : Layer(std::move(path)), in(in), out(out),
          in_innermost(o.in_innermost), W{this, "weight", o.in_innermost ? Shape{in, out} : Shape{out, in}, o.init,
                                          o.in_innermost ? "table" : "W"} {
        if (o.bias) b.emplace(this, "bias", Shape{out}, zeros);
    }
    Linear(std::string path, int in, int out, Init init = normal(0.02))
        : Linear(std::move(path), in, out, LinearOptions{.init = init}) {}

    Shape shape(const Shape &x) const override {
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        return x.with(0, out);
    }
    bool by_rows() const override { return true; }
    std::optional<ProductLayer> product() const override { return {{&W, b ? &*b : nullptr, in_innermost ? 1 : 0}}; }
    CastRow cast_row() const override { return CastRow::product; }
    double flops(const Shape &x) const override { return 2.0 * x.size() * out; }

    Func forward(Array x) override {
        Func y("y"), w = weight();
        Var o("o"), r("r");
        RDom i(0, in, "i");
        y(o, r) = b ? Expr((*b)(o)) : cast(x.type(), 0);
        y(o, r) += w(o, i) * x(i, r);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func w = weight(), dW("dW");
        Var i("i"), o("o"), r("r");
        RDom n(0, out, "n"), m(0, dy.extent(1), "m");
        d(x)(i, r) += w(n, i) * dy(n, r);
        Func &product = in_innermost ? dW : d(W);
        product(o, i) += x(i, m) * dy(o, m);
        if (in_innermost) d(W)(i, o) = dW(o, i);
        if (b) d (*b)(o) += dy(o, m);
    }
    bool factored(const Parameter &w) const override { return &w == &W; }
    Factors factors(const Parameter &, const Call &call, const Array &dy) override {
        const Factor of_in{call.input(), in}, of_out{dy, out};
        if (in_innermost) return {of_in, of_out, dy.extent(1)};
        return {of_out, of_in, dy.extent(1)};
    }

private:
    /// The weight by (out, in), however it is indexed.
    Func weight() const {
        if (!in_innermost) return W.func();
        Func w("W");
        Var o("o"), i("i");
        w(o, i) = W(i, o);
        return w;
    }
};

}  // namespace cryolite
