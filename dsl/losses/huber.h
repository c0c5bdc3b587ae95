#pragma once

#include "dsl/losses/row_loss.h"

namespace cryolite {

/// loss = mean over elements of h(x - t), h(e) = e^2 / 2 where |e| <= delta, delta (|e| - delta / 2) beyond: squared
/// near 0, so that the gradient is smooth, and linear beyond, so that outliers count less. x, t: [n, ...rows] -> [1].
/// Errors: delta is not positive. Robust Estimation of a Location Parameter, Huber, 1964; torch.nn.HuberLoss.
/// torch.nn.SmoothL1Loss(beta) is 1 / beta times this with delta = beta.
struct Huber : ElementwiseLoss {
    const double delta;

    explicit Huber(std::string path = "loss", double delta = 1, RowLossOptions o = {})
        : ElementwiseLoss(std::move(path), o), delta(delta) {
        if (!std::isfinite(delta) || delta <= 0)
            fail("[{}] has a delta of {}, expected a positive number", this->path, delta);
    }
    Expr value(Expr x, Expr t) const override {
        Expr e = x - t, far = abs(e), limit = number(x.type(), delta);
        return select(far <= limit, e * e / 2, limit * (far - limit / 2));
    }
    Expr slope(Expr x, Expr t) const override {
        return clamp(x - t, number(x.type(), -delta), number(x.type(), delta));
    }
};

}  // namespace cryolite
