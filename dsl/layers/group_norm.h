#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y = (x - mean) / sqrt(variance + eps) * g(c) + b(c), mean and variance over the channels of a group and all places
/// of an image.   x: [channels, width, height, batch] -> same.   g, b: [channels].
/// Group Normalization, Wu and He, 2018.
struct GroupNorm : Layer {
    const int groups, channels;
    const double eps;
    Parameter g, b;

    GroupNorm(std::string path, int groups, int channels, double eps = 1e-5)
        : Layer(std::move(path)), groups(groups), channels(channels),
          eps(eps), g{this, "weight", {channels}, ones}, b{this, "bias", {channels}, zeros} {
        if (groups < 1 || channels % groups)
            fail("[{}] {} groups do not divide {} channels", this->path, groups, channels);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4 || x[0] != channels)
            fail("[{}] input {} is not [{} channels, width, height, batch]", path, x.str(), channels);
        return x;
    }
    double flops(const Shape &x) const override { return 8.0 * double(x.size()); }

    Func forward(Array x) override {
        Func y("y");
        normalise(x);
        y(c, u, v, n) = xhat(c, u, v, n) * g(c) + b(c);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func along("along"), across("across");
        RDom k = group(x), m(0, x.extent(1), 0, x.extent(2), 0, x.extent(3), "m");
        normalise(x);
        Expr channel = q * size() + k.x, scaled = dy(channel, k.y, k.z, n) * g(channel), of = c / size();
        across(q, n) += scaled;
        along(q, n) += scaled * xhat(channel, k.y, k.z, n);
        d(x)(c, u, v, n) = rstd(of, n) * (dy(c, u, v, n) * g(c) - across(of, n) / count(x) -
                                          xhat(c, u, v, n) * along(of, n) / count(x));
        d(g)(c) += dy(c, m.x, m.y, m.z) * xhat(c, m.x, m.y, m.z);
        d(b)(c) += dy(c, m.x, m.y, m.z);
    }

private:
    Func rstd, xhat;
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"}, q{"q"};

    int size() const { return channels / groups; }
    RDom group(const Array &x) const { return RDom(0, size(), 0, x.extent(1), 0, x.extent(2), "k"); }
    Expr count(const Array &x) const { return cast(x.type(), size() * x.extent(1) * x.extent(2)); }
    void normalise(const Array &x) {
        Func total("total"), mean("mean"), square("square");
        rstd = Func("rstd"), xhat = Func("xhat");
        RDom k = group(x);
        Expr channel = q * size() + k.x;
        total(q, n) += x(channel, k.y, k.z, n);
        mean(q, n) = total(q, n) / count(x);
        Expr off = x(channel, k.y, k.z, n) - mean(q, n);
        square(q, n) += off * off;
        rstd(q, n) = 1 / sqrt(square(q, n) / count(x) + cast(x.type(), Expr(eps)));
        xhat(c, u, v, n) = (x(c, u, v, n) - mean(c / size(), n)) * rstd(c / size(), n);
    }
};

}  // namespace cryolite
