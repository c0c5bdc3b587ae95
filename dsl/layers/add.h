#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// z = x + y, elementwise; x and y of the same shape. Written `x + y` in a model.
struct Add : Layer2 {
    Add() : Layer2("add") {}
    Nature nature() const override { return Nature::sum; }
    std::optional<std::string> attributes() const override { return ""; }
    int rank() const override { return 0; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1]) fail("[add] adds {} and {}: the shapes must match", x[0].str(), x[1].str());
        return x[0];
    }
    Func forward(Array x, Array y) override {
        Func z("sum");
        z(Halide::_) = x(Halide::_) + y(Halide::_);
        return z;
    }
    void backward(const Call &call, Array dy) override {
        for (const Array &x : call.inputs) d(x)(Halide::_) = dy(Halide::_);
    }
};

}  // namespace cryolite
