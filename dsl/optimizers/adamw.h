#pragma once

#include "dsl/optimizer.h"

namespace cryolite {

/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// w = w - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w), t = 1 in the first update.
/// Decoupled Weight Decay Regularization, Loshchilov and Hutter, 2019. Biases and gains do not decay.
struct AdamW : Optimizer {
    State m{this, "exp_avg"}, v{this, "exp_avg_sq"};
    Scalar lr{this, "lr", 1e-3}, beta1{this, "beta1", 0.9}, beta2{this, "beta2", 0.95};
    Scalar eps{this, "eps", 1e-8}, weight_decay{this, "weight-decay", 0.1};

    std::string name() const override { return "adamw"; }
    Expr operator()(Expr w, Expr g) override {
        Expr rate = once(lr.exact / (1 - pow(beta1.exact, step))), c2 = once(1 / sqrt(1 - pow(beta2.exact, step)));
        m = beta1 * m + once(1 - beta1.exact) * g;
        v = beta2 * v + once(1 - beta2.exact) * g * g;
        Expr decayed = decays ? w * once(1 - lr.exact * weight_decay.exact) : w;
        return decayed - rate * m / (sqrt(v) * c2 + eps);
    }
};

}  // namespace cryolite
