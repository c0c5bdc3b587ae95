#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// loss = mean over elements of -t log(p) - (1 - t) log(1 - p), p = 1 / (1 + exp(-x)), written
/// max(x, 0) - x t + log(1 + exp(-|x|)), which overflows nowhere: each output is a yes or no of its own.
/// x: [n, ...rows], t: [n, ...rows] in 0 ... 1, float32 or int32 -> [1]. torch.nn.BCEWithLogitsLoss.
struct BinaryCrossEntropy : Layer2 {
    explicit BinaryCrossEntropy(std::string path = "loss") : Layer2(std::move(path)) {}
    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1])
            fail("[{}] has outputs {} but targets {}: the shapes must match", path, x[0].str(), x[1].str());
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

    Func forward(Array x, Array target) override {
        Func loss("loss"), of_row("of_row"), sum("sum");
        RDom k(0, x.extent(0), "k"), m(0, x.extent(1), "m");
        Expr z = x(k, r), none = cast(x.type(), 0);
        sum(r) += max(z, none) - z * cast(x.type(), target(k, r)) + log(1 + exp(-abs(z)));
        of_row(r) = sum(r) / x.extent(0);
        loss(u) += of_row(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &target = call.input(1);
        Func weight("weight");
        weight() = dy(0) / (x.extent(0) * x.extent(1));
        d(x)(i, r) = (1 / (1 + exp(-x(i, r))) - cast(x.type(), target(i, r))) * weight();
        if (target.type().is_float()) d(target)(i, r) = -x(i, r) * weight();
    }

private:
    Var i{"i"}, r{"r"}, u{"u"};
};

}  // namespace cryolite
