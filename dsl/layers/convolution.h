#pragma once

#include "dsl/layer.h"
#include "dsl/layers/window.h"

namespace cryolite {

struct Conv2DOptions {
    int stride = 1;
    int padding = -1;  ///< zeros on each side; -1: dilation (size - 1) / 2, which keeps the extents of an odd size
    int dilation = 1;
    int groups = 1;  ///< channels are split into so many groups; an output group reads its input group alone
    bool bias = true;
};

/// y(o, x, y, n) = b(o) + sum over c, kx, ky of W(o, c, kx, ky) in(c, s x + d kx - p, s y + d ky - p, n),
/// with stride s, dilation d and zero padding p.
/// in: [channels, width, height, batch] -> [out, width', height', batch],
/// width' = (width + 2p - d (size - 1) - 1) / s + 1.   W: [out, in / groups, size, size].
struct Conv2D : Layer {
    const int in, out, size;
    const Window window;
    const int groups;
    Parameter W;
    std::optional<Parameter> b;

    Conv2D(std::string path, int in, int out, int size, Conv2DOptions o = {})
        : Layer(std::move(path)), in(in), out(out), size(size), window(same(o, size)),
          groups(checked(o, in, out)), W{this,
                                         "weight",
                                         {out, in / o.groups, size, size},
                                         he(in / o.groups * size * size)} {
        window.check(this->path);
        if (o.padding < 0 && size % 2 == 0)
            fail("[{}] kernel size {} is even, expected an odd one, or a padding", this->path, size);
        if (o.bias) b.emplace(this, "bias", Shape{out}, zeros);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        return window.output(path, x).with(0, out);
    }
    double flops(const Shape &x) const override {
        const int products = in / groups * size * size;
        return 2.0 * double(shape(x).size()) * products;
    }

    Func forward(Array x) override {
        Func y("y"), padded = window.zero_outside(x, "padded");
        RDom k(0, in / groups, 0, size, 0, size, "k");
        y(o, u, v, n) = b ? Expr((*b)(o)) : cast(x.type(), 0);
        y(o, u, v, n) +=
            W(o, k.x, k.y, k.z) * padded(of_group(o, out, in, k.x), window.at(u, k.y), window.at(v, k.z), n);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var c("c"), kx("kx"), ky("ky");
        Func padded = window.zero_outside(x, "padded"), spread = window.zero_outside(dy, "spread");
        RDom k(0, out / groups, 0, size, 0, size, "k");
        RDom m(0, dy.extent(1), 0, dy.extent(2), 0, dy.extent(3), "m");
        Expr to = of_group(c, in, out, k.x);
        d(x)(c, u, v, n) += W(to, in_group(c), k.y, k.z) * window.from(spread, to, u, k.y, v, k.z, n);
        d(W)(o, c, kx, ky) +=
            dy(o, m.x, m.y, m.z) * padded(of_group(o, out, in, c), window.at(m.x, kx), window.at(m.y, ky), m.z);
        if (b) d (*b)(o) += dy(o, m.x, m.y, m.z);
    }

private:
    Var o{"o"}, u{"u"}, v{"v"}, n{"n"};

    static Window same(const Conv2DOptions &o, int size) {
        return {size, o.stride, o.padding < 0 ? o.dilation * (size - 1) / 2 : o.padding, o.dilation};
    }
    int checked(const Conv2DOptions &o, int in, int out) const {
        if (o.groups < 1 || in % o.groups || out % o.groups)
            fail("[{}] {} groups do not divide {} and {} channels", path, o.groups, in, out);
        return o.groups;
    }
    /// Channel `k` of a group, numbered among all `b` channels of its side. The group is that of channel `c`, one of
    /// `a` on the other side.
    Expr of_group(const Expr &c, int a, int b, const Expr &k) const {
        return groups == 1 ? k : c / (a / groups) * (b / groups) + k;
    }
    Expr in_group(const Expr &c) const { return groups == 1 ? c : c % (in / groups); }
};

}  // namespace cryolite
