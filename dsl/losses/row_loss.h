#pragma once

#include "dsl/layer.h"

namespace cryolite {

struct RowLossOptions {
    std::optional<double> ignored = {};  ///< rows or elements with this target do not count; their gradients are 0
};

/// The mean over rows of a value of each row. What has the ignored target does not count. The mean is over all that
/// counts in the whole batch, over all micro-batches and workers: the runtime knows the targets before the step. Where
/// everything is ignored, the mean is 0.
struct MeanOfRows : Layer {
    const RowLossOptions options;

    MeanOfRows(std::string path, RowLossOptions o) : Layer(std::move(path)), options(o) {
        if (o.ignored && !std::isfinite(*o.ignored))
            fail("[{}] has an ignored target that is not a finite number", this->path);
    }
    int output_rank() const override { return 1; }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }

protected:
    Var i{"i"}, r{"r"}, u{"u"};

    static Expr number(const Halide::Type &type, double v) { return cast(type, Expr(v)); }
    /// Calls the layer. Where targets may be ignored, it also reads the mean weight of the batch's targets.
    Tensor called(std::vector<Tensor> read, const Tensor &targets) {
        Graph &g = read[0].graph();
        if (options.ignored) {
            read.push_back(g.input(path + ".mean_weight", {1}, Halide::Float(32)));
            g.takes({.loss = path, .value = targets.id(), .ignored = options.ignored, .mean_weight = read.back().id()});
        }
        return g.call(*this, read);
    }
    Expr ignores(const Halide::Type &type, const Expr &target) const {
        return cast(type, target) == number(type, *options.ignored);
    }
    /// `e` where the target counts.
    Expr counted(const Expr &e, const Expr &target) const {
        return options.ignored ? select(ignores(e.type(), target), cast(e.type(), 0), e) : e;
    }
    /// The divisor of a sum over `count` terms: their number, times their mean weight. `in`: all inputs.
    Expr divisor(int count, const std::vector<Array> &in) const {
        return options.ignored ? number(in[0].type(), count) * in.back()(0) : Expr(count);
    }
    /// loss(0) = sum over rows of of_row(r) / divisor. Loop schedules find the loss of a row by the name "of_row".
    Func mean_over_rows(const Func &of_row, const std::vector<Array> &in) const {
        Func loss("loss");
        const int rows = in[0].extent(1);
        RDom m(0, rows, "m");
        loss(u) += of_row(m) / divisor(rows, in);
        return loss;
    }
};

/// loss = mean over rows of a function of a row of outputs x and the same row of targets t.
/// x, t: [n, ...rows], of one shape -> [1]. `aims` is what errors call t.
struct RowLoss : MeanOfRows {
    explicit RowLoss(std::string path, RowLossOptions o = {}, std::string aims = "targets")
        : MeanOfRows(std::move(path), o), aims(std::move(aims)) {}

    Tensor operator()(const Tensor &x, const Tensor &t) { return called({x, t}, t); }
    using Layer::shape;
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0] != x[1])
            fail("[{}] has outputs {} but {} {}: the shapes must match", path, x[0].str(), aims, x[1].str());
        return {1};
    }
    int input_rank(int k) const override { return k < 2 ? 2 : 1; }
    bool has_rows(int k) const override { return k < 2; }
    bool differentiates(int k) const override { return k < 2; }

private:
    const std::string aims;
};

/// loss = mean over elements of value(x, t).
struct ElementwiseLoss : RowLoss {
    using RowLoss::RowLoss;

    /// The loss of one element; t has the number type of x, in whatever type targets are stored.
    virtual Expr value(Expr x, Expr t) const = 0;
    /// Its derivatives by x and by t. The default for t is that of a function of x - t.
    virtual Expr slope(Expr x, Expr t) const = 0;
    virtual Expr slope_by_target(Expr x, Expr t) const { return -slope(x, t); }

    Func forward(const std::vector<Array> &in) override {
        const Array &x = in[0], &target = in[1];
        Func sum("sum"), of_row("of_row");
        RDom k(0, x.extent(0), "k");
        const Expr t = target(k, r);
        sum(r) += counted(value(x(k, r), cast(x.type(), t)), t);
        of_row(r) = sum(r) / x.extent(0);
        return mean_over_rows(of_row, in);
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &target = call.input(1);
        const Expr t = cast(x.type(), target(i, r));
        Func weight("weight");
        weight() = dy(0) / divisor(x.extent(0) * x.extent(1), call.inputs);
        d(x)(i, r) = counted(slope(x(i, r), t), t) * weight();
        if (target.type().is_float()) d(target)(i, r) = counted(slope_by_target(x(i, r), t), t) * weight();
    }
};

}  // namespace cryolite
