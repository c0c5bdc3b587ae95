#pragma once

#include "dsl/mode.h"

namespace cryolite {

struct BatchNormOptions {
    double eps = 1e-5;
    double momentum = 0.1;  ///< share that a batch has in the new running statistics
};

/// y(c, r) = (x(c, r) - k(c, 0)) k(c, 1) + k(c, 2).
/// x: [channels, ...rows], k: [channels, 3 or more] -> as x.
struct RescaledChannels : Layer2 {
    using Layer2::Layer2;
    Nature nature() const override { return Nature::pointwise; }
    int input_rank(int) const override { return 2; }
    bool has_rows(int k) const override { return k == 0; }
    Shape shape(const std::vector<Shape> &in) const override {
        if (in[1].rank() != 2 || in[0][0] != in[1][0] || in[1][1] < 3)
            fail("[{}] has {} for the channels of {}, expected three numbers for each", path, in[1].str(), in[0].str());
        return in[0];
    }
    double flops(const Shape &x) const override { return 3.0 * double(x.size()); }

    Func forward(Array x, Array k) override {
        Func y("y");
        y(c, r) = (x(c, r) - k(c, 0)) * k(c, 1) + k(c, 2);
        return y;
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &k = call.input(1);
        Func sums("sums_of_adjoint");
        RDom m(0, x.extent(1), "m");
        sums(c) += Tuple(dy(c, m), dy(c, m) * (x(c, m) - k(c, 0)));
        d(x)(c, r) = dy(c, r) * k(c, 1);
        const Expr none = cast(x.type(), 0);
        d(k)(c, r) = select(r == 0, -k(c, 1) * sums(c)[0], r == 1, sums(c)[1], r == 2, sums(c)[0], none);
    }

private:
    Var c{"c"}, r{"r"};
};

/// y(c, r) = (x(c, r) - mean(c)) / sqrt(variance(c) + eps) g(c) + b(c). In training, mean and variance are those of the
/// channel over all rows of the batch; in evaluation the running ones, which each call in training updates:
/// s <- (1 - momentum) s + momentum s(batch), where the batch's variance is the unbiased one (rows - 1 for rows).
/// x: [channels, ...rows] (of an image: [channels, width, height, batch]) -> same. The batch is a worker's part of a
/// micro-batch; all workers have the running statistics of the first. torch.nn.BatchNorm1d and 2d, under
/// DistributedDataParallel. The layer itself computes four numbers for each channel: mean, g / sqrt(variance + eps), b
/// and variance. `rescaled` computes y from them, once the sums over all rows are known.
/// Errors: other channels, a single row, eps or momentum out of range.
/// Batch Normalization, Ioffe and Szegedy, 2015.
struct BatchNorm : ModedLayer {
    const int channels;
    const BatchNormOptions options;
    Parameter g, b;
    LayerState mean, variance;
    RescaledChannels rescaled;

    BatchNorm(std::string path, int channels, BatchNormOptions o = {})
        : ModedLayer(std::move(path)), channels(channels),
          options(o), g{this, "weight", {channels}, ones}, b{this, "bias", {channels}, zeros},
          mean{this, "running_mean", {channels}, 0}, variance{this, "running_var", {channels}, 1},
          rescaled(this->path + ".rescaled") {
        if (!(o.eps > 0 && std::isfinite(o.eps))) fail("[{}] has an eps of {}, expected above 0", this->path, o.eps);
        if (!(o.momentum >= 0 && o.momentum <= 1))
            fail("[{}] has a momentum of {}, expected 0 to 1", this->path, o.momentum);
    }
    Tensor operator()(const Tensor &x) { return rescaled(x, ModedLayer::operator()(x)); }
    using ModedLayer::shape;
    Shape shape(const Shape &x) const override {
        if (x[0] != channels) fail("[{}] input has {} channels, expected {}", path, x[0], channels);
        if (x.size() <= channels)
            fail("[{}] input {} has one row, but the statistics of a batch need several: use a larger batch", path,
                 x.str());
        return {channels, 4};
    }
    double flops(const Shape &x) const override { return 3.0 * double(x.size()); }

    Func forward(const std::vector<Array> &in) override {
        const Array &x = in[0];
        const Expr training = Mode(in[1]).training();
        Func k("k"), first("first"), off("off"), sums("sums"), of_batch("of_batch"), now("now");
        RDom m(0, x.extent(1), "m");
        // One pass: sums of differences from the first row. Any value of a channel is within sqrt(rows) standard
        // deviations of the mean, so little cancels.
        first(c) = stop_gradient(x(c, 0));  // the result is the same for any value
        off(c, r) = x(c, r) - first(c);
        sums(c) += Tuple(off(c, m), off(c, m) * off(c, m));
        const Expr beside = sums(c)[0] / rows(x);
        of_batch(c) = Tuple(first(c) + beside, (sums(c)[1] - sums(c)[0] * beside) / rows(x));
        now(c) = Tuple(select(training, of_batch(c)[0], mean(c)), select(training, of_batch(c)[1], variance(c)));
        k(c, r) = select(r == 0, now(c)[0], r == 1, g(c) * rstd(x, now(c)[1]), r == 2, b(c), now(c)[1]);
        return k;
    }
    void backward(const Call &call, Array dk) override {
        const Array &x = call.input(), &k = call.output;
        Func of_mean("of_mean"), of_variance("of_variance");
        const Expr per_row = select(Mode(call.input(1)).training(), 1 / rows(x), cast(x.type(), 0));
        const Expr scale = rstd(x, k(c, 3)), half = number(x, 0.5);
        of_mean(c) = dk(c, 0) * per_row;
        of_variance(c) = (dk(c, 3) - half * dk(c, 1) * g(c) * scale * scale * scale) * per_row;
        d(x)(c, r) = of_mean(c) + 2 * (x(c, r) - k(c, 0)) * of_variance(c);
        d(g)(c) = dk(c, 1) * scale;
        d(b)(c) = dk(c, 2);
    }
    Expr next(const LayerState &state, const Expr &old, const std::vector<Var> &at, const Call &call) override {
        const Array &x = call.input(), &k = call.output;
        const Expr unbiased = k(at[0], 3) * (rows(x) / (rows(x) - 1));
        return old + number(x, options.momentum) * ((&state == &mean ? k(at[0], 0) : unbiased) - old);
    }

private:
    Var c{"c"}, r{"r"};

    static Expr number(const Array &like, double v) { return cast(like.type(), Expr(v)); }
    static Expr rows(const Array &x) { return number(x, x.extent(1)); }
    Expr rstd(const Array &x, const Expr &variance) const { return 1 / sqrt(variance + number(x, options.eps)); }
};

}  // namespace cryolite
