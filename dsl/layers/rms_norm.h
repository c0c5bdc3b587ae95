#pragma once

#include "dsl/layer.h"

namespace cryolite {

struct RMSNormOptions {
    double eps = 1e-5;
    bool one_plus = false;  ///< gains are 1 + g, and g begins at 0: Gemma's
};

/// y = x / sqrt(mean(x^2) + eps) * g over the innermost dimension.
/// x: [width, ...rows] -> same.   g: [width].   Root Mean Square Layer Normalization, Zhang and Sennrich, 2019.
struct RMSNorm : Layer {
    const int width;
    const RMSNormOptions options;
    Parameter g;

    RMSNorm(std::string path, int width, RMSNormOptions o = {})
        : Layer(std::move(path)), width(width), options(o), g{this, "weight", {width}, o.one_plus ? zeros : ones} {
        if (!(o.eps > 0)) fail("[{}] eps is {}, expected more than 0", this->path, o.eps);
    }

    Nature nature() const override { return Nature::rowwise; }
    Shape shape(const Shape &x) const override {
        if (x[0] != width) fail("[{}] input has {} channels, expected {}", path, x[0], width);
        return x;
    }
    CastRow cast_row() const override { return CastRow::normalisation; }
    double flops(const Shape &x) const override { return 4.0 * x.size(); }

    Func forward(Array x) override {
        Func y("y");
        normalise(x);
        y(i, r) = xhat(i, r) * gain(i);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func along("along");
        RDom k(0, width, "k"), m(0, x.extent(1), "m");
        normalise(x);
        along(r) += dy(k, r) * gain(k) * xhat(k, r);
        d(x)(i, r) = rstd(r) * (dy(i, r) * gain(i) - xhat(i, r) * along(r) / width);
        d(g)(i) += dy(i, m) * xhat(i, m);
    }

private:
    Func rstd, xhat;
    Var i{"i"}, r{"r"};

    Expr gain(const Expr &i) const { return options.one_plus ? 1 + g(i) : Expr(g(i)); }
    void normalise(const Array &x) {
        Func square("square");
        rstd = Func("rstd"), xhat = Func("xhat");
        RDom k(0, width, "k");
        square(r) += x(k, r) * x(k, r);
        rstd(r) = 1 / sqrt(square(r) / width + cast(x.type(), Expr(options.eps)));
        xhat(i, r) = x(i, r) * rstd(r);
    }
};

}  // namespace cryolite
