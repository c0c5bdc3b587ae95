#pragma once
// Layers that random models are made of, beside the library's. Two instances of one of these types may compute and read
// different things, as a user's layers may.

#include "dsl/layer.h"

namespace cryolite::fuzz {

/// y = f(x), element by element. `how` 0: y = 2 x, whose gradient reads neither x nor y; 1: y = x^2 / 2, whose gradient
/// reads x; 2: y = 1 / (1 + exp(-x)), whose gradient reads y.
struct Curve : Layer {
    const int how;
    Curve(std::string path, int how) : Layer(std::move(path)), how(how) {}
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x) override {
        Func y("y");
        y(i, r) = how == 0 ? x(i, r) * 2 : how == 1 ? x(i, r) * x(i, r) / 2 : 1 / (1 + exp(-x(i, r)));
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(), &y = call.output;
        d(x)(i, r) = how == 0 ? dy(i, r) * 2 : how == 1 ? dy(i, r) * x(i, r) : dy(i, r) * y(i, r) * (1 - y(i, r));
    }

private:
    Var i{"i"}, r{"r"};
};

/// y = g x by channel, or y = g + x where `adds`: then no gradient reads x.
struct Gain : Layer {
    const bool adds;
    Parameter g;
    Gain(std::string path, int width, bool adds)
        : Layer(std::move(path)), adds(adds), g{this, "weight", {width}, adds ? zeros : ones} {}
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x) override {
        Func y("y");
        y(i, r) = adds ? x(i, r) + g(i) : x(i, r) * g(i);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        RDom m(0, x.extent(1), "m");
        d(x)(i, r) = adds ? Expr(dy(i, r)) : dy(i, r) * g(i);
        d(g)(i) += adds ? Expr(dy(i, m)) : dy(i, m) * x(i, m);
    }

private:
    Var i{"i"}, r{"r"};
};

}  // namespace cryolite::fuzz
