#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// A layer whose every output element depends only on the input element at the same place.   x: any shape -> same.
struct Pointwise : Layer {
    explicit Pointwise(std::string path) : Layer(std::move(path)) {}
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 0; }
    CastRow cast_row() const override { return CastRow::pointwise; }

    /// y = f(x).
    virtual Expr value(Expr x) const = 0;
    /// dy/dx at x.
    virtual Expr slope(Expr x) const = 0;

    Func forward(Array x) override {
        Func y("y");
        y(Halide::_) = value(x(Halide::_));
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        d(x)(Halide::_) = dy(Halide::_) * slope(x(Halide::_));
    }
};

/// y = max(x, 0); its slope at 0 is 0.
struct Relu : Pointwise {
    using Pointwise::Pointwise;
    Expr value(Expr x) const override { return max(x, cast(x.type(), 0)); }
    Expr slope(Expr x) const override { return select(x > 0, cast(x.type(), 1), cast(x.type(), 0)); }
};

/// y = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + exp(-2u)).
/// GELUs, Hendrycks and Gimpel, 2016: the form GPT-2 uses.
struct Gelu : Pointwise {
    using Pointwise::Pointwise;
    Expr value(Expr x) const override { return x * gate(x); }
    Expr slope(Expr x) const override {
        Expr s = gate(x), k = number(x, 2 * scale);
        Expr inner = k * (1 + number(x, 3 * cubic) * x * x);
        return s + x * s * (1 - s) * inner;
    }

private:
    static constexpr double scale = 0.7978845608028654, cubic = 0.044715;
    static Expr number(const Expr &like, double v) { return cast(like.type(), Expr(v)); }
    /// Halide's exp is 0, not infinite, for arguments above 2^31 log 2, which -2u exceeds for x below -2753.
    static Expr gate(const Expr &x) {
        const Expr minus_2u = number(x, -2 * scale) * x * (1 + number(x, cubic) * x * x);
        return 1 / (1 + exp(min(minus_2u, number(x, 1000))));
    }
};

namespace in_double {
inline HalidePureExtern_1(double, erf, double);  // Halide's own erf is of float32
}

/// y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2 the normal distribution function.
struct GeluExact : Pointwise {
    using Pointwise::Pointwise;
    Expr value(Expr x) const override { return x * phi(x); }
    Expr slope(Expr x) const override {
        Expr density = cast(x.type(), Expr(0.3989422804014327)) * exp(-x * x / 2);
        return phi(x) + x * density;
    }

private:
    static Expr phi(const Expr &x) {
        Expr u = x * cast(x.type(), Expr(0.7071067811865476));
        return (1 + (x.type() == Halide::Float(64) ? in_double::erf(u) : erf(u))) / 2;
    }
};

/// y = 1 / (1 + exp(-x)), from 0 to 1: a gate.
struct Sigmoid : Pointwise {
    using Pointwise::Pointwise;
    Expr value(Expr x) const override { return 1 / (1 + exp(-x)); }
    Expr slope(Expr x) const override {
        Expr y = value(x);
        return y * (1 - y);
    }
};

/// y = x / (1 + exp(-x)).   Also called Swish: Ramachandran et al., 2017.
struct SiLU : Pointwise {
    using Pointwise::Pointwise;
    Expr value(Expr x) const override { return x * sigmoid(x); }
    Expr slope(Expr x) const override {
        Expr s = sigmoid(x);
        return s * (1 + x * (1 - s));
    }

private:
    static Expr sigmoid(const Expr &x) { return 1 / (1 + exp(-x)); }
};

/// y = f(gate) up, elementwise, f an activation.   gate, up: one shape -> same.
/// GLU Variants Improve Transformer, Shazeer, 2020.
template <typename Activation> struct Gated : Layer2 {
    explicit Gated(std::string path) : Layer2(std::move(path)) {}
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 0; }
    CastRow cast_row() const override { return CastRow::pointwise; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x.size() != 2 || x[0].extents() != x[1].extents())
            fail("[{}] the gate has shape {}, but what it multiplies has shape {}: they must be equal", path,
                 x.at(0).str(), x.at(1).str());
        return x[0];
    }

    Func forward(Array gate, Array up) override {
        Func y("y");
        y(Halide::_) = f.value(gate(Halide::_)) * up(Halide::_);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &gate = call.input(0), &up = call.input(1);
        d(gate)(Halide::_) = dy(Halide::_) * up(Halide::_) * f.slope(gate(Halide::_));
        d(up)(Halide::_) = dy(Halide::_) * f.value(gate(Halide::_));
    }

private:
    Activation f{path};
};

/// y = SiLU(gate) up.
struct SwiGLU : Gated<SiLU> {
    using Gated::Gated;
};
/// y = GELU(gate) up, GELU in its tanh form.
struct GeGLU : Gated<Gelu> {
    using Gated::Gated;
};

}  // namespace cryolite
