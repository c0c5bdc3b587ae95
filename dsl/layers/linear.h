#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y = W x + b.   x: [in, ...rows] -> y: [out, ...rows].   W: [out, in], b: [out].
struct Linear : Layer {
    const int in, out;
    Parameter W, b;

    Linear(std::string path, int in, int out, Init init = normal(0.02))
        : Layer(std::move(path)), in(in), out(out), W{this, "weight", {out, in}, init, "W"},
          b{this, "bias", {out}, zeros} {}

    Shape shape(const Shape &x) const override {
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        return x.with(0, out);
    }
    bool by_rows() const override { return true; }
    std::optional<ProductLayer> product() const override { return {{&W, &b}}; }
    Casts casts() const override { return {.inputs = true, .output = true, .products = true}; }
    double flops(const Shape &x) const override { return 2.0 * x.size() * out; }

    Func forward(Array x) override {
        Func y("y");
        Var o("o"), r("r");
        RDom i(0, in, "i");
        y(o, r) = b(o);
        y(o, r) += W(o, i) * x(i, r);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var i("i"), o("o"), r("r");
        RDom n(0, out, "n"), m(0, dy.extent(1), "m");
        d(x)(i, r) += W(n, i) * dy(n, r);
        d(W)(o, i) += x(i, m) * dy(o, m);
        d(b)(o) += dy(o, m);
    }
    bool factored(const Parameter &w) const override { return &w == &W; }
    Factors factors(const Parameter &, const Call &call, const Array &dy) override {
        return {{dy, out}, {call.input(), in}, dy.extent(1)};
    }
};

}  // namespace cryolite
