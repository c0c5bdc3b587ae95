#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// y(o, x, y, n) = b(o) + sum W(o, c, kx, ky) in(c, x + kx - p, y + ky - p, n), zero padding p = size / 2.
/// in: [channels, width, height, batch] -> [out, width, height, batch].   size is odd.
struct Conv2D : Layer {
    const int in, out, size, pad = size / 2;
    Parameter W, b;

    Conv2D(std::string path, int in, int out, int size)
        : Layer(std::move(path)), in(in), out(out), size(size),
          W{this, "weight", {out, in, size, size}, he(in * size * size)}, b{this, "bias", {out}, zeros} {
        if (size % 2 == 0) fail("[{}] kernel size {} is even, expected an odd one", this->path, size);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        return x.with(0, out);
    }
    double flops(const Shape &x) const override { return 2.0 * x.size() * out * size * size; }

    Func forward(Array x) override {
        Func y("y"), padded = zero_outside(x, "padded");
        RDom k(0, in, 0, size, 0, size, "k");
        y(o, u, v, n) = b(o);
        y(o, u, v, n) += W(o, k.x, k.y, k.z) * padded(k.x, u + k.y - pad, v + k.z - pad, n);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Var c("c"), kx("kx"), ky("ky");
        Func padded = zero_outside(x, "padded"), spread = zero_outside(dy, "spread");
        RDom k(0, out, 0, size, 0, size, "k");
        RDom m(0, x.extent(1), 0, x.extent(2), 0, x.extent(3), "m");
        d(x)(c, u, v, n) += W(k.x, c, k.y, k.z) * spread(k.x, u - k.y + pad, v - k.z + pad, n);
        d(W)(o, c, kx, ky) += dy(o, m.x, m.y, m.z) * padded(c, m.x + kx - pad, m.y + ky - pad, m.z);
        d(b)(o) += dy(o, m.x, m.y, m.z);
    }

private:
    Var o{"o"}, u{"u"}, v{"v"}, n{"n"};

    /// `x` inside its extents, zero in the padding around them.
    Func zero_outside(const Array &x, const std::string &name) const {
        Func f(name);
        int w = x.extent(1), h = x.extent(2);
        Expr inside = u >= 0 && u < w && v >= 0 && v < h;
        f(o, u, v, n) = select(inside, x(o, clamp(u, 0, w - 1), clamp(v, 0, h - 1), n), cast(x.type(), 0));
        return f;
    }
};

/// y = mean over 2x2 windows with stride 2.   x: [channels, width, height, batch], even width and height.
struct AveragePool : Layer {
    using Layer::Layer;
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4 || x[1] % 2 || x[2] % 2)
            fail("[{}] input {} is not [channels, even width, even height, batch]", path, x.str());
        return x.with(1, x[1] / 2).with(2, x[2] / 2);
    }
    double flops(const Shape &x) const override { return double(x.size()); }

    Func forward(Array x) override {
        Func y("y");
        y(c, u, v, n) = (x(c, 2 * u, 2 * v, n) + x(c, 2 * u + 1, 2 * v, n) + x(c, 2 * u, 2 * v + 1, n) +
                         x(c, 2 * u + 1, 2 * v + 1, n)) / 4;
        return y;
    }
    void backward(const Call &call, Array dy) override {
        d(call.input())(c, u, v, n) = dy(c, u / 2, v / 2, n) / 4;
    }

private:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
};

/// y = max over 2x2 windows with stride 2; the gradient goes to the first maximum of a window.
struct MaxPool : AveragePool {
    using AveragePool::AveragePool;
    Func forward(Array x) override {
        Func y("y");
        y(c, u, v, n) = window(x, u, v, 4);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        // `before`: the largest element that precedes (u, v) in its window, in the order of `window`.
        Expr k = u % 2 + 2 * (v % 2), first = cast<bool>(true);
        for (int j = 0; j < 3; j++)
            first = first && (k <= j || x(c, u, v, n) > at(x, u / 2, v / 2, j));
        Expr largest = x(c, u, v, n) >= window(x, u / 2, v / 2, 4);
        d(x)(c, u, v, n) = select(first && largest, dy(c, u / 2, v / 2, n), cast(dy.type(), 0));
    }

private:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
    Expr at(const Array &x, Expr wu, Expr wv, int j) const {
        return x(c, 2 * wu + j % 2, 2 * wv + j / 2, n);
    }
    Expr window(const Array &x, Expr wu, Expr wv, int count) const {
        Expr best = at(x, wu, wv, 0);
        for (int j = 1; j < count; j++) best = max(best, at(x, wu, wv, j));
        return best;
    }
};

/// Folds [channels, width, height, batch] into [channels * width * height, batch]; the elements stay in place.
struct Flatten : Layer {
    using Layer::Layer;
    Nature nature() const override { return Nature::pointwise; }
    int rank() const override { return 1; }
    Shape shape(const Shape &x) const override {
        int last = x.rank() - 1;
        return Shape{int(x.size() / x[last]), x[last]};
    }
    Func forward(Array x) override {
        Func y("y");
        y(Halide::_) = x(Halide::_);
        return y;
    }
    void backward(const Call &call, Array dy) override { d(call.input())(Halide::_) = dy(Halide::_); }
};

}  // namespace cryolite
