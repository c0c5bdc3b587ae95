#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// Where a square window lies on an image: output place u covers inputs stride u + dilation k - padding, 0 <= k < size.
struct Window {
    int size, stride = 1, padding = 0, dilation = 1;

    void check(const std::string &path) const {
        if (size < 1 || stride < 1 || dilation < 1 || padding < 0)
            fail("[{}] has a window of size {}, stride {}, dilation {}, padding {}: expected at least 1, 1, 1, 0", path,
                 size, stride, dilation, padding);
    }
    /// Shape of the output of windows over x: [channels, width, height, batch]. Errors: the window does not fit.
    Shape output(const std::string &path, const Shape &x) const {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        const int span = dilation * (size - 1) + 1;
        for (int d : {1, 2})
            if (x[d] + 2 * padding < span)
                fail("[{}] a window of {} does not fit into input {} with padding {}", path, span, x.str(), padding);
        auto places = [&](int d) { return (x[d] + 2 * padding - span) / stride + 1; };
        return x.with(1, places(1)).with(2, places(2));
    }
    /// The input that place `k` of the window at output `u` covers.
    Expr at(const Expr &u, const Expr &k) const {
        Expr e = stride == 1 ? u : u * stride;
        e = e + (dilation == 1 ? k : k * dilation);
        return e - padding;
    }
    /// `x` inside its extents, `value` around them.
    static Func padded(const Array &x, const Expr &value, const std::string &name) {
        Func f(name);
        Var c("c"), u("u"), v("v"), n("n");
        const int w = x.extent(1), h = x.extent(2);
        const Expr inside = u >= 0 && u < w && v >= 0 && v < h;
        f(c, u, v, n) = select(inside, x(c, clamp(u, 0, w - 1), clamp(v, 0, h - 1), n), value);
        return f;
    }
    static Func zero_outside(const Array &x, const std::string &name) { return padded(x, cast(x.type(), 0), name); }
    /// f at the output whose window has place (kx, ky) over input (u, v); zero where none has.
    Expr from(const Func &f, const Expr &c, const Expr &u, const Expr &kx, const Expr &v, const Expr &ky,
              const Expr &n) const {
        auto begin = [&](const Expr &e, const Expr &k) { return e - (dilation == 1 ? k : k * dilation) + padding; };
        Expr x = begin(u, kx), y = begin(v, ky);
        if (stride == 1) return f(c, x, y, n);
        return select(x % stride == 0 && y % stride == 0, f(c, x / stride, y / stride, n), cast(f.type(), 0));
    }
};

}  // namespace cryolite
