#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y = (x - mean) / sqrt(variance + eps) * g + b over the innermost dimension.
/// x: [width, ...rows] -> same.   g, b: [width].   Layer Normalization, Ba et al., 2016.
struct LayerNorm : Layer {
    const int width;
    const double eps;
    Parameter g, b;

    LayerNorm(std::string path, int width, double eps = 1e-5)
        : Layer(std::move(path)), width(width),
          eps(eps), g{this, "weight", {width}, ones}, b{this, "bias", {width}, zeros} {}

    Nature nature() const override { return Nature::rowwise; }
    Shape shape(const Shape &x) const override {
        if (x[0] != width) fail("[{}] input has {} channels, expected {}", path, x[0], width);
        return x;
    }
    CastRow cast_row() const override { return CastRow::normalisation; }
    double flops(const Shape &x) const override { return 8.0 * x.size(); }

    Func forward(Array x) override {
        Func y("y");
        normalise(x);
        y(i, r) = xhat(i, r) * g(i) + b(i);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func along("along"), across("across");
        RDom k(0, width, "k"), m(0, x.extent(1), "m");
        normalise(x);
        across(r) += dy(k, r) * g(k);
        along(r) += dy(k, r) * g(k) * xhat(k, r);
        d(x)(i, r) = rstd(r) * (dy(i, r) * g(i) - across(r) / width - xhat(i, r) * along(r) / width);
        d(g)(i) += dy(i, m) * xhat(i, m);
        d(b)(i) += dy(i, m);
    }

private:
    Func mean, rstd, xhat;
    Var i{"i"}, r{"r"};

    void normalise(const Array &x) {
        Func total("total"), square("square");
        mean = Func("mean"), rstd = Func("rstd"), xhat = Func("xhat");
        RDom k(0, width, "k");
        total(r) += x(k, r);
        mean(r) = total(r) / width;
        square(r) += (x(k, r) - mean(r)) * (x(k, r) - mean(r));
        rstd(r) = 1 / sqrt(square(r) / width + cast(x.type(), Expr(eps)));
        xhat(i, r) = (x(i, r) - mean(r)) * rstd(r);
    }
};

}  // namespace cryolite
