#pragma once

#include "dsl/losses/row_loss.h"

namespace cryolite {

/// loss = T^2 mean over rows of KL(p || q) = T^2 mean over rows of sum_v p(v) (log p(v) - log q(v)), with
/// p = softmax(teacher / T) and q = softmax(x / T): a student learns a teacher's probabilities, softened by the
/// temperature T; T^2 keeps the size of gradients.
/// x, teacher: [classes, ...rows] -> [1]. The teacher is a constant here: no gradient of it is taken.
/// Errors: T is not positive. Distilling the Knowledge in a Neural Network, Hinton et al., 2015;
/// T^2 torch.nn.KLDivLoss(reduction='batchmean') of log_softmax(x / T) and softmax(teacher / T).
struct Distillation : RowLoss {
    const double temperature;

    explicit Distillation(std::string path = "loss", double temperature = 1, RowLossOptions o = {})
        : RowLoss(std::move(path), o, "a teacher's"), temperature(temperature) {
        if (!std::isfinite(temperature) || temperature <= 0)
            fail("[{}] has a temperature of {}, expected a positive number", this->path, temperature);
    }
    Tensor operator()(const Tensor &x, const Tensor &teacher) {
        if (options.ignored)
            fail("[{}] has the option `ignored`, so call it with the targets too: (outputs, teacher, targets)", path);
        return x.graph().call(*this, {x, teacher});
    }
    /// With the model's targets, one for each row: rows with the ignored target do not count.
    Tensor operator()(const Tensor &x, const Tensor &teacher, const Tensor &targets) {
        if (!options.ignored)
            fail("[{}] is called with targets, which it needs only with the option `ignored`: set it, or leave the "
                 "targets out",
                 path);
        return called({x, teacher, targets}, targets);
    }
    Shape shape(const std::vector<Shape> &x) const override {
        if (x.size() > 2 && x[2].size() * x[0][0] != x[0].size())
            fail("[{}] has outputs {} but targets {}: one target for each row is expected", path, x[0].str(),
                 x[2].str());
        return RowLoss::shape(x);
    }
    bool has_rows(int k) const override { return k < 3; }
    bool differentiates(int k) const override { return k == 0; }
    bool adjoint_replaces(int k) const override { return k == 0; }

    Func forward(const std::vector<Array> &in) override {
        const Array &x = in[0], &teacher = in[1];
        Func of_row("of_row"), sum("kl");
        const Func mine = log_sum(x, ""), its = log_sum(teacher, "teacher_");
        RDom k(0, x.extent(0), "k");
        Expr log_p = scaled(teacher, k, r) - its(r), log_q = scaled(x, k, r) - mine(r);
        sum(r) += exp(log_p) * (log_p - log_q);
        of_row(r) = counted_row(in, number(x.type(), temperature * temperature) * sum(r));
        return mean_over_rows(of_row, in);
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &teacher = call.input(1);
        const Func mine = log_sum(x, ""), its = log_sum(teacher, "teacher_");
        Func weight("weight");
        weight() = number(x.type(), temperature) * dy(0) / divisor(x.extent(1), call.inputs);
        const Expr slope = exp(scaled(x, i, r) - mine(r)) - exp(scaled(teacher, i, r) - its(r));
        d(x)(i, r) = counted_row(call.inputs, slope) * weight();
    }

private:
    Expr counted_row(const std::vector<Array> &in, const Expr &e) const {
        return options.ignored ? counted(e, in[2](r)) : e;
    }
    Expr scaled(const Array &x, const Expr &v, const Expr &row) const {
        return x(v, row) * number(x.type(), 1 / temperature);
    }
    Func log_sum(const Array &x, const std::string &of) const {
        Func top(of + "top"), sum(of + "sum"), lse(of + "lse");
        RDom k(0, x.extent(0), of + "k");
        top(r) = x.type().min();
        top(r) = max(top(r), scaled(x, k, r));
        sum(r) += exp(scaled(x, k, r) - top(r));
        lse(r) = log(sum(r)) + top(r);
        return lse;
    }
};

}  // namespace cryolite
