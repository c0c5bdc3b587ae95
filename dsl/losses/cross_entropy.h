#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// loss = mean over rows of log(sum_v exp(x(v))) - x(target), shifted by the row's maximum.
/// x: [classes, ...rows], targets: [...rows] int32 -> [1].
struct CrossEntropy : Layer2 {
    explicit CrossEntropy(std::string path = "loss") : Layer2(std::move(path)) {}

    int input_rank(int k) const override { return k == 0 ? 2 : 1; }
    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0].size() != x[1].size() * x[0][0])
            fail("[{}] has outputs {} but targets {}: one target for each row is expected", path,
                 x[0].str(), x[1].str());
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

    Func forward(Array x, Array targets) override {
        Func loss("loss"), nll("nll");
        log_sum(x);
        nll(r) = lse(r) - x(clamp(targets(r), 0, x.extent(0) - 1), r);
        RDom m(0, x.extent(1), "m");
        loss(u) += nll(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input(0), targets = call.input(1);
        Func weight("weight");
        log_sum(x);
        weight() = dy(0) / x.extent(1);
        Expr hit = select(v == targets(r), cast(x.type(), 1), cast(x.type(), 0));
        d(x)(v, r) = (exp(x(v, r) - lse(r)) - hit) * weight();
    }

private:
    Func lse;
    Var v{"v"}, r{"r"}, u{"u"};

    void log_sum(const Array &x) {
        Func top("top"), sum("sum");
        lse = Func("lse");
        RDom k(0, x.extent(0), "k");
        top(r) = x.type().min();
        top(r) = max(top(r), x(k, r));
        sum(r) += exp(x(k, r) - top(r));
        lse(r) = log(sum(r)) + top(r);
    }
};

inline Tensor cross_entropy(const Tensor &x, const Tensor &targets) {
    auto &loss = static_cast<CrossEntropy &>(x.graph().own(std::make_unique<CrossEntropy>()));
    return loss(x, targets);
}

}  // namespace cryolite
