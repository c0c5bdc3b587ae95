#pragma once

#include "dsl/layer.h"

namespace cryolite {

/// Options of a CrossEntropy. Errors: a smoothing outside of 0 ... 1, a class weight that is negative or not finite,
/// class weights that are all 0.
struct CrossEntropyOptions {
    std::optional<int> ignored = {};        ///< rows with this target (-100, say) do not count; their gradients are 0
    double smoothing = 0;                   ///< share of the target's probability that is spread over all classes
    std::vector<float> class_weights = {};  ///< how much the rows of each class count; empty: each 1
};

/// loss = sum over rows r of sum_v y(v, r) w(v) (lse(r) - x(v, r)) / sum over rows r of w(target(r)), where
/// y(v, r) = (1 - smoothing) (v == target(r)) + smoothing / classes, w(v) is the weight of class v, and
/// lse(r) = log(sum_v exp(x(v, r))), computed relative to the row's maximum.
/// Ignored rows are in neither sum; where all rows are ignored, the loss is 0.
/// Without options: mean over rows of lse - x(target). As torch.nn.functional.cross_entropy.
/// The sum of weights is that of the whole batch, over all micro-batches and workers: the runtime knows the targets
/// before the step. There, a target that is neither a class nor the ignored one is an error.
/// x: [classes, ...rows], targets: [...rows] int32 -> [1]. Where rows are weighed, the algorithm also reads the class
/// weights [classes], if there are any, and the mean weight of a row [1].
/// Smoothing: Rethinking the Inception Architecture, Szegedy et al., 2016.
struct CrossEntropy : Layer {
    const CrossEntropyOptions options;

    explicit CrossEntropy(std::string path = "loss", CrossEntropyOptions options = {})
        : Layer(std::move(path)), options(std::move(options)) {
        const double s = this->options.smoothing;
        if (!(s >= 0 && s <= 1)) fail("[{}] has a label smoothing of {}, expected 0 to 1", this->path, s);
        for (float w : this->options.class_weights) {
            if (!std::isfinite(w) || w < 0)
                fail("[{}] has a class weight of {}, expected a finite number from 0 on", this->path, w);
            total_weight += w;
        }
        if (by_class() && total_weight == 0)
            fail("[{}] has class weights that are all 0, and learns from no row", this->path);
    }

    Tensor operator()(const Tensor &x, const Tensor &targets) {
        Graph &g = x.graph();
        shape({x.shape(), targets.shape()});
        std::vector<Tensor> read = {x, targets};
        Graph::Ids ids{.loss = path, .value = targets.id(), .classes = x.shape()[0], .ignored = options.ignored};
        if (by_class()) {
            read.push_back(g.constant(path + ".class_weights", {x.shape()[0]}, options.class_weights));
            ids.class_weights = read.back().id();
        }
        if (weighs()) {
            read.push_back(g.input(path + ".mean_weight", {1}, Halide::Float(32)));
            ids.mean_weight = read.back().id();
        }
        g.takes(ids);
        return g.call(*this, read);
    }

    int input_rank(int k) const override { return k == 0 ? 2 : 1; }
    int output_rank() const override { return 1; }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x[0].size() != x[1].size() * x[0][0])
            fail("[{}] has outputs {} but targets {}: one target for each row is expected", path, x[0].str(),
                 x[1].str());
        if (by_class() && int(options.class_weights.size()) != x[0][0])
            fail("[{}] has {} class weights, but outputs {}: one for each of {} classes is expected", path,
                 options.class_weights.size(), x[0].str(), x[0][0]);
        return {1};
    }
    double flops(const Shape &) const override { return 0; }
    bool mean_of_rows() const override { return true; }
    bool has_rows(int k) const override { return k < 2; }
    bool differentiates(int k) const override { return k < 2; }
    bool adjoint_replaces(int k) const override { return k == 0; }

    Func forward(const std::vector<Array> &in) override {
        const Array &x = in[0];
        Func loss("loss"), nll("nll"), spread("spread");
        log_sum(x);
        Expr shifted = lse(r) - x(clamp(in[1](r), 0, x.extent(0) - 1), r), row = shifted;
        if (by_class()) row = of_target(in) * row;
        if (options.smoothing > 0) {
            RDom k(0, x.extent(0), "k");
            spread(r) += by_class() ? in[2](k) * x(k, r) : x(k, r);
            row = number(x, 1 - options.smoothing) * row +
                  number(x, share(x)) * (number(x, sum_of_weights(x)) * lse(r) - spread(r));
        }
        if (options.ignored) row = select(ignores(in), cast(x.type(), 0), row);
        nll(r) = row;
        RDom m(0, x.extent(1), "m");
        loss(u) += nll(m) / rows(in);
        return loss;
    }
    void backward(const Call &call, Array dy) override {
        const std::vector<Array> &in = call.inputs;
        const Array &x = in[0];
        Func weight("weight");
        log_sum(x);
        weight() = dy(0) / rows(in);
        Expr hit = select(v == in[1](r), cast(x.type(), 1), cast(x.type(), 0)), p = exp(x(v, r) - lse(r)),
             slope = p - hit;
        if (by_class()) slope = of_target(in) * slope;
        if (options.smoothing > 0)
            slope =
                number(x, 1 - options.smoothing) * slope +
                number(x, share(x)) * (number(x, sum_of_weights(x)) * p - (by_class() ? in[2](v) : cast(x.type(), 1)));
        if (options.ignored) slope = select(ignores(in), cast(x.type(), 0), slope);
        d(x)(v, r) = slope * weight();
    }

private:
    Func lse;
    Var v{"v"}, r{"r"}, u{"u"};
    double total_weight = 0;

    bool by_class() const { return !options.class_weights.empty(); }
    /// Whether rows count differently.
    bool weighs() const { return by_class() || options.ignored; }
    static Expr number(const Array &like, double v) { return cast(like.type(), Expr(v)); }
    double share(const Array &x) const { return options.smoothing / x.extent(0); }
    double sum_of_weights(const Array &x) const { return by_class() ? total_weight : x.extent(0); }
    Expr ignores(const std::vector<Array> &in) const { return in[1](r) == *options.ignored; }
    Expr of_target(const std::vector<Array> &in) const { return in[2](clamp(in[1](r), 0, in[0].extent(0) - 1)); }
    /// The divisor of the sum over rows: their number, times their mean weight.
    Expr rows(const std::vector<Array> &in) const {
        const Array &x = in[0];
        return weighs() ? number(x, x.extent(1)) * in.back()(0) : Expr(x.extent(1));
    }
    void log_sum(const Array &x) {
        Func top("top"), sum("sum");
        lse = Func("lse");
        RDom k(0, x.extent(0), "k");
        top(r) = x.type().min();
        top(r) = max(top(r), x(k, r));
        sum(r) += exp(x(k, r) - top(r));
        lse(r) = log(sum(r)) + top(r);
    }
};

inline Tensor cross_entropy(const Tensor &x, const Tensor &targets, CrossEntropyOptions options = {}) {
    auto &loss = static_cast<CrossEntropy &>(x.graph().own(std::make_unique<CrossEntropy>("loss", std::move(options))));
    return loss(x, targets);
}

}  // namespace cryolite
