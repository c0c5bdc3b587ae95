#pragma once
// Elementwise arithmetic on tensors of one shape and numbers: the layers behind the operators of dsl/tensor.h.

#include "dsl/layers/activation.h"

namespace cryolite {

/// z = x op y, elementwise; x and y of one shape.
struct Elementwise : Layer2 {
    using Layer2::Layer2;
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 0; }
    CastRow cast_row() const override { return CastRow::pointwise; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1]) fail("[{}] of {} and {}: the shapes must match", path, x[0].str(), x[1].str());
        return x[0];
    }
    /// z, and its derivatives by x and by y.
    virtual Expr value(Expr x, Expr y) const = 0;
    virtual std::pair<Expr, Expr> slopes(Expr x, Expr y) const = 0;

    Func forward(Array x, Array y) override {
        Func z("z");
        z(Halide::_) = value(x(Halide::_), y(Halide::_));
        return z;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &y = call.input(1);
        const auto [along_x, along_y] = slopes(x(Halide::_), y(Halide::_));
        d(x)(Halide::_) = dy(Halide::_) * along_x;
        d(y)(Halide::_) = dy(Halide::_) * along_y;
    }
};

/// z = x - y. Written `x - y`.
struct Subtract : Elementwise {
    Subtract() : Elementwise("subtract") {}
    std::optional<std::string> attributes() const override { return ""; }
    Expr value(Expr x, Expr y) const override { return x - y; }
    std::pair<Expr, Expr> slopes(Expr x, Expr) const override { return {cast(x.type(), 1), cast(x.type(), -1)}; }
};

/// z = x y. Written `x * y`.
struct Multiply : Elementwise {
    Multiply() : Elementwise("multiply") {}
    std::optional<std::string> attributes() const override { return ""; }
    Expr value(Expr x, Expr y) const override { return x * y; }
    std::pair<Expr, Expr> slopes(Expr x, Expr y) const override { return {y, x}; }
};

/// z = x / y. Written `x / y`.
struct Divide : Elementwise {
    Divide() : Elementwise("divide") {}
    std::optional<std::string> attributes() const override { return ""; }
    Expr value(Expr x, Expr y) const override { return x / y; }
    std::pair<Expr, Expr> slopes(Expr x, Expr y) const override { return {1 / y, -x / (y * y)}; }
};

/// z = x + c. Written `x + c`, `x - c`.
struct Plus : Pointwise {
    const double c;
    explicit Plus(double c) : Pointwise("plus"), c(c) {
        if (!std::isfinite(c)) fail("[plus] {} is added to a tensor, expected a finite number", c);
    }
    std::optional<std::string> attributes() const override { return fmt::format("{}", c); }
    Expr value(Expr x) const override { return x + cast(x.type(), Expr(c)); }
    Expr slope(Expr x) const override { return cast(x.type(), 1); }
};

}  // namespace cryolite
