#pragma once

#include "dsl/mode.h"

namespace cryolite {

struct BatchNormOptions {
    double eps = 1e-5;
    double momentum = 0.1;  ///< share of a batch in the running statistics
};

/// y(c, r) = (x(c, r) - mean(c)) / sqrt(variance(c) + eps) g(c) + b(c). In training, mean and variance are those of the
/// channel over all rows of the batch; in evaluation the running ones, which each call in training brings nearer to the
/// batch's: s <- (1 - momentum) s + momentum s(batch), the variance with rows - 1 for rows.
/// x: [channels, ...rows] (of an image: [channels, width, height, batch]) -> same. The batch is a worker's part of a
/// micro-batch; the running statistics of all workers are those of the first. torch.nn.BatchNorm1d and 2d, under
/// DistributedDataParallel.
/// Errors: other channels, a single row, eps or momentum out of range.
/// Batch Normalization, Ioffe and Szegedy, 2015.
struct BatchNorm : ModedLayer {
    const int channels;
    const BatchNormOptions options;
    Parameter g, b;
    LayerState mean, variance;

    BatchNorm(std::string path, int channels, BatchNormOptions o = {})
        : ModedLayer(std::move(path)), channels(channels),
          options(o), g{this, "weight", {channels}, ones}, b{this, "bias", {channels}, zeros},
          mean{this, "running_mean", {channels}, 0}, variance{this, "running_var", {channels}, 1} {
        if (!(o.eps > 0 && std::isfinite(o.eps))) fail("[{}] has an eps of {}, expected above 0", this->path, o.eps);
        if (!(o.momentum >= 0 && o.momentum <= 1))
            fail("[{}] has a momentum of {}, expected 0 to 1", this->path, o.momentum);
    }
    using ModedLayer::shape;
    Shape shape(const Shape &x) const override {
        if (x[0] != channels) fail("[{}] input has {} channels, expected {}", path, x[0], channels);
        if (x.size() <= channels)
            fail("[{}] input {} has one row: statistics of a batch are over several", path, x.str());
        return x;
    }
    double flops(const Shape &x) const override { return 8.0 * double(x.size()); }

    Func forward(const std::vector<Array> &in) override {
        Func y("y");
        normalise(in);
        y(c, r) = xhat(c, r) * g(c) + b(c);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input();
        Func sums("sums_of_adjoint"), along("along"), across("across");
        RDom m(0, x.extent(1), "m");
        normalise(call.inputs);
        sums(c) += Tuple(dy(c, m), dy(c, m) * off(c, m));
        across(c) = sums(c)[0];
        along(c) = rstd(c) * (sums(c)[1] - (centre(c) - first(c)) * sums(c)[0]);  // the sum of dy xhat
        const Expr of_batch = (across(c) + xhat(c, r) * along(c)) / rows(x);
        const Expr moved = select(Mode(call.input(1)).training(), of_batch, cast(x.type(), 0));
        d(x)(c, r) = rstd(c) * g(c) * (dy(c, r) - moved);
        d(g)(c) = along(c);
        d(b)(c) += dy(c, m);  // alone, it reads nothing else
    }
    Expr next(const LayerState &state, const Expr &old, const std::vector<Var> &at, const Call &call) override {
        const Array &x = call.input();
        if (!measured.defined() || !measured.function().same_as(x.function())) measure(x);  // once for both states
        const Expr of_batch = &state == &mean ? Expr(batch_mean(at[0])) : square(at[0]) / (rows(x) - 1);
        return old + number(x, options.momentum) * (of_batch - old);
    }

private:
    Func measured, first, off, batch_mean, square, centre, rstd, xhat;
    Var c{"c"}, r{"r"};

    static Expr number(const Array &like, double v) { return cast(like.type(), Expr(v)); }
    static Expr rows(const Array &x) { return number(x, x.extent(1)); }
    /// The mean of a batch, and the sum of squares around it: from sums around the first row, in one pass. No value of
    /// a channel is farther from its mean than sqrt(rows) standard deviations, so that little cancels.
    void measure(const Array &x) {
        measured = x;
        Func sums("sums"), beside("beside");
        first = Func("first"), off = Func("off"), batch_mean = Func("batch_mean"), square = Func("square");
        RDom k(0, x.extent(1), "k");
        first(c) = stop_gradient(x(c, 0));  // nothing depends on which value it is
        off(c, r) = x(c, r) - first(c);
        sums(c) += Tuple(off(c, k), off(c, k) * off(c, k));
        beside(c) = sums(c)[0] / rows(x);
        batch_mean(c) = first(c) + beside(c);
        square(c) = sums(c)[1] - sums(c)[0] * beside(c);
    }
    void normalise(const std::vector<Array> &in) {
        const Array &x = in[0];
        const Expr training = Mode(in[1]).training();
        centre = Func("centre"), rstd = Func("rstd"), xhat = Func("xhat");
        measure(x);
        centre(c) = select(training, batch_mean(c), mean(c));
        rstd(c) = 1 / sqrt(select(training, square(c) / rows(x), variance(c)) + number(x, options.eps));
        xhat(c, r) = (x(c, r) - centre(c)) * rstd(c);
    }
};

}  // namespace cryolite
