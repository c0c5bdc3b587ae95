#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y = x, element by element.   x: any shape -> same.
struct Copy : Layer {
    using Layer::Layer;
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 0; }
    Func forward(Array x) override {
        Func y("y");
        y(Halide::_) = x(Halide::_);
        return y;
    }
    void backward(const Call &call, Array dy) override { d(call.input())(Halide::_) = dy(Halide::_); }
};

/// The same elements, in the same order, in another shape: its rows are not those of x.
struct Refold : Copy {
    using Copy::Copy;
    bool by_rows() const override { return false; }
    int rank() const override { return 1; }
};

}  // namespace cryolite
