#pragma once

#include "dsl/layer.h"
#include "dsl/layers/window.h"

namespace cryolite {

/// y = mean over 2x2 windows with stride 2.   x: [channels, width, height, batch], even width and height
/// -> [channels, width / 2, height / 2, batch].
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
                         x(c, 2 * u + 1, 2 * v + 1, n)) /
                        4;
        return y;
    }
    void backward(const Call &call, Array dy) override { d(call.input())(c, u, v, n) = dy(c, u / 2, v / 2, n) / 4; }

private:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
};

/// y = max over 2x2 windows with stride 2; the gradient goes to the first maximum of a window. Shapes as AveragePool.
struct MaxPool : AveragePool {
    using AveragePool::AveragePool;
    Func forward(Array x) override {
        Func y("y");
        y(c, u, v, n) = window(x, u, v, 4);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        // `first`: whether the element is larger than all before it in its window, in the order of `window`.
        Expr k = u % 2 + 2 * (v % 2), first = cast<bool>(true);
        for (int j = 0; j < 3; j++) first = first && (k <= j || x(c, u, v, n) > at(x, u / 2, v / 2, j));
        Expr largest = x(c, u, v, n) >= window(x, u / 2, v / 2, 4);
        d(x)(c, u, v, n) = select(first && largest, dy(c, u / 2, v / 2, n), cast(dy.type(), 0));
    }

private:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
    Expr at(const Array &x, Expr wu, Expr wv, int j) const { return x(c, 2 * wu + j % 2, 2 * wv + j / 2, n); }
    Expr window(const Array &x, Expr wu, Expr wv, int count) const {
        Expr best = at(x, wu, wv, 0);
        for (int j = 1; j < count; j++) best = max(best, at(x, wu, wv, j));
        return best;
    }
};

struct PoolOptions {
    int size = 2, stride = 2, padding = 0;
};

/// A pool over windows that may overlap.   x: [channels, width, height, batch] -> [channels, width', height', batch],
/// width' = (width + 2p - size) / stride + 1.
struct WindowPool : Layer {
    const Window window;

    WindowPool(std::string path, PoolOptions o) : Layer(std::move(path)), window{o.size, o.stride, o.padding} {
        window.check(this->path);
        if (2 * o.padding > o.size)
            fail("[{}] padding {} is more than half of the window's {}", this->path, o.padding, o.size);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override { return window.output(path, x); }
    double flops(const Shape &x) const override { return double(shape(x).size()) * window.size * window.size; }

protected:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
    RDom places() const { return RDom(0, window.size, 0, window.size, "k"); }
};

/// y = mean over windows; padding counts as zeros, as in PyTorch's AvgPool2d.
struct AveragePool2D : WindowPool {
    using WindowPool::WindowPool;
    Func forward(Array x) override {
        Func y("y"), padded = window.zero_outside(x, "padded");
        RDom k = places();
        y(c, u, v, n) += padded(c, window.at(u, k.x), window.at(v, k.y), n) * share(x);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Func spread = window.zero_outside(dy, "spread");
        RDom k = places();
        d(call.input())(c, u, v, n) += window.from(spread, c, u, k.x, v, k.y, n) * share(dy);
    }

private:
    Expr share(const Array &like) const { return cast(like.type(), Expr(1.0 / (window.size * window.size))); }
};

/// y = max over windows; the gradient of a window goes to its first maximum, row by row.
struct MaxPool2D : WindowPool {
    using WindowPool::WindowPool;
    Func forward(Array x) override {
        Func y("y"), best = first_maximum(x);
        y(c, u, v, n) = best(c, u, v, n)[0];
        return y;
    }
    void backward(const Call &call, Array dy) override {
        Array x = call.input();
        Func best = first_maximum(x), chosen("chosen"), weight("weight");
        // The place of a window that its gradient goes to; -1 where there is no window.
        const int w = dy.extent(1), h = dy.extent(2);
        Expr a = clamp(u, 0, w - 1), b = clamp(v, 0, h - 1), inside = u >= 0 && u < w && v >= 0 && v < h;
        chosen(c, u, v, n) = select(inside, best(c, a, b, n)[1], -1);
        weight(c, u, v, n) = select(inside, dy(c, a, b, n), cast(dy.type(), 0));
        RDom k = places();
        Expr hit = window.from(chosen, c, u, k.x, v, k.y, n) == k.x + k.y * window.size;
        // Where no window begins, `from` gives 0, the number of the first place; the weight is 0 there, too.
        d(x)(c, u, v, n) += select(hit, window.from(weight, c, u, k.x, v, k.y, n), cast(dy.type(), 0));
    }

private:
    /// The maximum of each window, and which of its places has it.
    Func first_maximum(const Array &x) const {
        Func best("best"), padded = window.padded(x, x.type().min(), "padded");
        RDom k = places();
        Expr value = padded(c, window.at(u, k.x), window.at(v, k.y), n);
        best(c, u, v, n) = Tuple(x.type().min(), 0);
        Expr better = value > best(c, u, v, n)[0];
        best(c, u, v, n) = Tuple(select(better, value, best(c, u, v, n)[0]),
                                 select(better, k.x + k.y * window.size, best(c, u, v, n)[1]));
        return best;
    }
};

/// y(c, n) = mean of x over all dimensions between channels and batch: of an image, or of a sequence.
/// x: [channels, width, height, batch], or [channels, context, batch] (`dimensions` 3) -> [channels, batch].
struct MeanPool : Layer {
    const int dimensions;

    explicit MeanPool(std::string path, int dimensions = 4) : Layer(std::move(path)), dimensions(dimensions) {
        if (dimensions < 3) fail("[{}] has {} dimensions, expected at least 3", this->path, dimensions);
    }
    int input_rank(int) const override { return dimensions; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != dimensions) fail("[{}] input {} has not {} dimensions", path, x.str(), dimensions);
        return {x[0], x[x.rank() - 1]};
    }
    Func forward(Array x) override {
        Func y("y");
        Halide::Region places;
        for (int k = 1; k < x.shape.rank() - 1; k++) places.emplace_back(0, x.extent(k));
        RDom k(places, "k");
        std::vector<Expr> at = {c};
        for (int j = 0; j < k.dimensions(); j++) at.push_back(k[j]);
        at.push_back(n);
        y(c, n) += x(at) * share(x);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        std::vector<Var> at = {c};
        for (int k = 1; k < call.input().shape.rank() - 1; k++) at.emplace_back("u" + std::to_string(k));
        at.push_back(n);
        d(call.input())(at) = dy(c, n) * share(call.input());
    }

private:
    Var c{"c"}, n{"n"};
    static Expr share(const Array &x) {
        const Shape &s = x.shape;
        return cast(x.type(), Expr(double(s[0]) * s[s.rank() - 1] / double(s.size())));
    }
};

}  // namespace cryolite
