#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// loss = mean over elements of h(x - t), h(e) = e^2 / 2 where |e| <= delta, delta (|e| - delta / 2) beyond: squared
/// near 0, so that
/// the gradient is smooth, linear far off, so that outliers do not rule. x, t: [n, ...rows] -> [1].
/// Errors: delta is not positive. Robust Estimation of a Location Parameter, Huber, 1964; torch.nn.HuberLoss.
/// torch.nn.SmoothL1Loss(beta) is 1 / beta times this with delta = beta.
struct Huber : Layer2 {
    const double delta;

    explicit Huber(std::string path = "loss", double delta = 1) : Layer2(std::move(path)), delta(delta) {
        if (!std::isfinite(delta) || delta <= 0)
            fail("[{}] has a delta of {}, expected a positive number", this->path, delta);
    }
    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1]) fail("[{}] compares {} with targets {}: the shapes must match", path, x[0].str(), x[1].str());
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

    Func forward(Array x, Array target) override {
        Func loss("loss"), of_row("of_row"), sum("sum");
        RDom k(0, x.extent(0), "k"), m(0, x.extent(1), "m");
        Expr e = x(k, r) - target(k, r), far = abs(e), limit = number(x, delta);
        sum(r) += select(far <= limit, e * e / 2, limit * (far - limit / 2));
        of_row(r) = sum(r) / x.extent(0);
        loss(u) += of_row(m) / x.extent(1);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &target = call.input(1);
        Func weight("weight");
        weight() = dy(0) / (x.extent(0) * x.extent(1));
        Expr slope = clamp(x(i, r) - target(i, r), number(x, -delta), number(x, delta)) * weight();
        d(x)(i, r) = slope;
        if (target.type().is_float()) d(target)(i, r) = -slope;
    }

private:
    Var i{"i"}, r{"r"}, u{"u"};
    static Expr number(const Array &like, double v) { return cast(like.type(), Expr(v)); }
};

}  // namespace cryolite
