#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// Images grow by a whole factor f: [channels, width, height, batch] -> [channels, f width, f height, batch].
/// Errors: f is below 1; the input has not four dimensions.
struct Resize : Layer {
    const int factor;

    Resize(std::string path, int factor) : Layer(std::move(path)), factor(factor) {
        if (factor < 1) fail("[{}] has a factor of {}, expected at least 1", this->path, factor);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        return x.with(1, x[1] * factor).with(2, x[2] * factor);
    }

protected:
    Var c{"c"}, u{"u"}, v{"v"}, n{"n"};
};

/// y(c, u, v, n) = x(c, u / f, v / f, n): each pixel becomes a square of f by f equal ones.
struct NearestResize : Resize {
    using Resize::Resize;
    Func forward(Array x) override {
        Func y("y");
        y(c, u, v, n) = x(c, u / factor, v / factor, n);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        RDom k(0, factor, 0, factor, "k");
        d(call.input())(c, u, v, n) += dy(c, u * factor + k.x, v * factor + k.y, n);
    }
};

/// Bilinear interpolation: along each side, y(u) is x at the place (u + 1/2) / f - 1/2, clamped to the image and
/// interpolated linearly between the two nearest pixels.
/// torch.nn.functional.interpolate(mode='bilinear', align_corners=False, scale_factor=f).
struct BilinearResize : Resize {
    using Resize::Resize;
    double flops(const Shape &x) const override { return 8.0 * double(shape(x).size()); }

    Func forward(Array x) override {
        Func y("y");
        const Side across(*this, x.type(), u, x.extent(1)), down(*this, x.type(), v, x.extent(2));
        auto between = [](const Expr &a, const Expr &b, const Expr &share) { return a + share * (b - a); };
        auto row = [&](const Expr &at) {
            return between(x(c, across.before, at, n), x(c, across.after, at, n), across.share);
        };
        y(c, u, v, n) = between(row(down.before), row(down.after), down.share);
        return y;
    }
    /// The gradient of a pixel is a sum over the outputs that may read it.
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        RDom k(0, reach(), 0, reach(), "k");
        auto output = [&](const Expr &i, const Expr &j) { return i * factor - factor / 2 - 1 + j; };
        auto weight = [&](const Expr &at, const Expr &of, int extent) {
            const Expr far = abs(place(dy.type(), at, extent) - cast(dy.type(), of));
            const Expr inside = at >= 0 && at < extent * factor;
            return select(inside, max(1 - far, cast(dy.type(), 0)), cast(dy.type(), 0));
        };
        const int w = x.extent(1), h = x.extent(2);
        const Expr p = output(u, k.x), q = output(v, k.y);
        d(x)(c, u, v, n) +=
            weight(p, u, w) * weight(q, v, h) * dy(c, clamp(p, 0, w * factor - 1), clamp(q, 0, h * factor - 1), n);
    }

private:
    /// Outputs that may read a pixel, along a side.
    int reach() const { return 2 * factor + 2; }
    /// The place of output `at` in the input image.
    Expr place(const Halide::Type &type, const Expr &at, int extent) const {
        const Expr exact = (cast(type, at) + cast(type, Expr(0.5))) / factor - cast(type, Expr(0.5));
        return clamp(exact, cast(type, 0), cast(type, extent - 1));
    }
    /// The two pixels that an output lies between along a side, and the share of the second one.
    struct Side {
        Expr before, after, share;
        Side(const BilinearResize &r, const Halide::Type &type, const Expr &at, int extent) {
            const Expr exact = r.place(type, at, extent);
            before = clamp(cast<int>(exact), 0, extent - 1);
            after = min(before + 1, extent - 1);
            share = exact - cast(type, before);
        }
    };
};

}  // namespace cryolite
