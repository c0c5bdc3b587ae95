#pragma once

#include "dsl/losses/row_loss.h"

namespace cryolite {

/// The share of rows in which no output is larger than the target's: a metric, without a gradient. Ignored rows do not
/// count.
/// x: [classes, ...rows], targets: [...rows] int32 -> [1].
struct Accuracy : MeanOfRows {
    explicit Accuracy(std::string path = "accuracy", RowLossOptions o = {}) : MeanOfRows(std::move(path), o) {}

    Tensor operator()(const Tensor &x, const Tensor &targets) { return called({x, targets}, targets); }
    using Layer::shape;
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0].size() != x[1].size() * x[0][0])
            fail("[{}] has outputs {} but targets {}: one target for each row is expected", path, x[0].str(),
                 x[1].str());
        return {1};
    }
    int input_rank(int k) const override { return k == 0 ? 2 : 1; }
    bool has_rows(int k) const override { return k < 2; }
    bool differentiates(int) const override { return false; }

    Func forward(const std::vector<Array> &in) override {
        const Array &x = in[0];
        Func top("top"), of_row("of_row");
        RDom k(0, x.extent(0), "k");
        top(r) = x.type().min();
        top(r) = max(top(r), x(k, r));
        const Expr target = in[1](r), hit = x(clamp(target, 0, x.extent(0) - 1), r) >= top(r);
        of_row(r) = counted(cast(x.type(), hit), target);
        return mean_over_rows(of_row, in);
    }
    void backward(const Call &, Array) override {}
};

}  // namespace cryolite
