#pragma once

#include "dsl/layers/window.h"

namespace cryolite {

struct ConvTranspose2DOptions {
    int stride = 1;
    int padding = 0;  ///< rows and columns of the result that are cut off on each side
    int dilation = 1;
    int output_padding = 0;  ///< additional rows and columns at the far sides of the result; less than the stride
    bool bias = true;
};

/// y(o, x, y, n) = b(o) + sum over c, kx, ky of W(o, c, kx, ky) in(c, (x + p - d kx) / s, (y + p - d ky) / s, n), where
/// both divisions have no remainder; stride s, padding p, dilation d. Each input element spreads a kernel over the
/// result, as the input's gradient of a Conv2D of these options does.
/// in: [channels, width, height, batch] -> [out, width', height', batch],
/// width' = (width - 1) s - 2 p + d (size - 1) + output_padding + 1.   W: [out, in, size, size].
/// torch.nn.ConvTranspose2d, without groups. Deconvolutional Networks, Zeiler et al., 2010.
struct ConvTranspose2D : Layer {
    const int in, out, size, output_padding;
    const Window window;
    Parameter W;
    std::optional<Parameter> b;

    ConvTranspose2D(std::string path, int in, int out, int size, ConvTranspose2DOptions o = {})
        : Layer(std::move(path)), in(in), out(out), size(size),
          output_padding(o.output_padding), window{size, o.stride, o.padding, o.dilation}, W{this,
                                                                                             "weight",
                                                                                             {out, in, size, size},
                                                                                             he(in * size * size)} {
        window.check(this->path);
        if (output_padding < 0 || output_padding >= o.stride)
            fail("[{}] has an output padding of {}, expected 0 to less than the stride {}", this->path, output_padding,
                 o.stride);
        if (o.bias) b.emplace(this, "bias", Shape{out}, zeros);
    }
    int rank() const override { return 4; }
    Shape shape(const Shape &x) const override {
        if (x.rank() != 4) fail("[{}] input {} is not [channels, width, height, batch]", path, x.str());
        if (x[0] != in) fail("[{}] input has {} channels, expected {}", path, x[0], in);
        auto extent = [&](int d) {
            return (x[d] - 1) * window.stride - 2 * window.padding + window.dilation * (size - 1) + output_padding + 1;
        };
        if (extent(1) < 1 || extent(2) < 1)
            fail("[{}] a padding of {} leaves nothing of input {}", path, window.padding, x.str());
        return {out, extent(1), extent(2), x[3]};
    }
    double flops(const Shape &x) const override { return 2.0 * double(x.size()) * out * size * size; }

    Func forward(Array x) override {
        Func y("y"), spread = window.zero_outside(x, "spread");
        RDom k(0, in, 0, size, 0, size, "k");
        y(o, u, v, n) = b ? Expr((*b)(o)) : cast(x.type(), 0);
        y(o, u, v, n) += W(o, k.x, k.y, k.z) * window.from(spread, k.x, u, k.y, v, k.z, n);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        Func padded = window.zero_outside(dy, "padded");
        Var c("c"), kx("kx"), ky("ky");
        RDom k(0, out, 0, size, 0, size, "k"), m(0, x.extent(1), 0, x.extent(2), 0, x.extent(3), "m"),
            r(0, dy.extent(1), 0, dy.extent(2), 0, dy.extent(3), "r");
        d(x)(c, u, v, n) += W(k.x, c, k.y, k.z) * padded(k.x, window.at(u, k.y), window.at(v, k.z), n);
        d(W)(o, c, kx, ky) += x(c, m.x, m.y, m.z) * padded(o, window.at(m.x, kx), window.at(m.y, ky), m.z);
        if (b) d (*b)(o) += dy(o, r.x, r.y, r.z);
    }

private:
    Var o{"o"}, u{"u"}, v{"v"}, n{"n"};
};

}  // namespace cryolite
