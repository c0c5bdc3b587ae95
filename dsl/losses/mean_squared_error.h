#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// loss = mean over all elements of (x - t)^2, as torch.nn.MSELoss has it.
/// x: [outputs, ...rows], targets t of the same shape: real numbers -> [1].
struct MeanSquaredError : Layer2 {
    explicit MeanSquaredError(std::string path = "loss") : Layer2(std::move(path)) {}

    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1])
            fail("[{}] has outputs {} but targets {}: one target for each output is expected", path, x[0].str(),
                 x[1].str());
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

    Func forward(Array x, Array targets) override {
        Func loss("loss"), of_row("of_row");
        RDom k(0, x.extent(0), "k"), m(0, x.extent(1), "m");
        Expr error = x(k, r) - targets(k, r);
        of_row(r) += error * error / x.extent(0);
        loss(u) += of_row(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input(0), targets = call.input(1);
        Func weight("weight");
        weight() = 2 * dy(0) / (x.extent(0) * x.extent(1));
        d(x)(o, r) = (x(o, r) - targets(o, r)) * weight();
        d(targets)(o, r) = (targets(o, r) - x(o, r)) * weight();
    }

private:
    Var o{"o"}, r{"r"}, u{"u"};
};

inline Tensor mean_squared_error(const Tensor &x, const Tensor &targets) {
    auto &loss = static_cast<MeanSquaredError &>(x.graph().own(std::make_unique<MeanSquaredError>()));
    return loss(x, targets);
}

}  // namespace cryolite
