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

    explicit Distillation(std::string path = "loss", double temperature = 1)
        : RowLoss(std::move(path), "a teacher's"), temperature(temperature) {
        if (!std::isfinite(temperature) || temperature <= 0)
            fail("[{}] has a temperature of {}, expected a positive number", this->path, temperature);
    }
    bool differentiates(int k) const override { return k == 0; }

    Func forward(Array x, Array teacher) override {
        Func of_row("of_row"), sum("kl");
        const Func mine = log_sum(x, ""), its = log_sum(teacher, "teacher_");
        RDom k(0, x.extent(0), "k");
        Expr log_p = scaled(teacher, k, r) - its(r), log_q = scaled(x, k, r) - mine(r);
        sum(r) += exp(log_p) * (log_p - log_q);
        of_row(r) = number(x.type(), temperature * temperature) * sum(r);
        return mean_over_rows(of_row, x.extent(1));
    }
    void backward(const Call &call, Array dy) override {
        const Array &x = call.input(0), &teacher = call.input(1);
        const Func mine = log_sum(x, ""), its = log_sum(teacher, "teacher_");
        Func weight("weight");
        weight() = number(x.type(), temperature) * dy(0) / x.extent(1);
        d(x)(i, r) = (exp(scaled(x, i, r) - mine(r)) - exp(scaled(teacher, i, r) - its(r))) * weight();
    }

private:
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
