#pragma once

#include "dsl/layer.h"

namespace cryolite::compiler {

/// y = sum over k of weights[k] x_k, of single numbers. It makes one loss from those of chunks of rows.
struct WeightedSum : Layer {
    std::vector<double> weights;

    explicit WeightedSum(std::vector<double> w) : Layer("loss"), weights(std::move(w)) {}
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 1; }
    Func forward(const std::vector<Array> &x) override {
        Func y("y");
        Var u("u");
        Expr sum = weight(x[0], 0) * x[0](u);
        for (size_t k = 1; k < x.size(); k++) sum += weight(x[k], k) * x[k](u);
        y(u) = sum;
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Var u("u");
        for (size_t k = 0; k < call.inputs.size(); k++) d(call.inputs[k])(u) = weight(dy, k) * dy(u);
    }

private:
    Expr weight(const Array &like, size_t k) const { return cast(like.type(), Expr(weights[k])); }
};

}  // namespace cryolite::compiler
