#pragma once
// Layers of one type whose instances differ in a data member, and a model of two of them.

#include "generators/cryolite.h"

namespace cryolite::test {

/// y = 2 x; bent: y = x^2 / 2, whose gradient alone reads x. Its slope is `wrong` too large.
struct Curve : Layer {
    bool bent;
    float wrong = 0;
    Curve(const std::string &path, bool bent) : Layer(path), bent(bent) {}
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array x) override {
        Func y("y");
        y(i, r) = bent ? x(i, r) * x(i, r) / 2 : x(i, r) * 2;
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        d(x)(i, r) = (bent ? dy(i, r) * x(i, r) : dy(i, r) * 2) * (1 + wrong);
    }

private:
    Var i{"i"}, r{"r"};
};

}  // namespace cryolite::test
