#pragma once

#include "dsl/optimizer.h"

namespace cryolite {

/// w = w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w),  m = beta2 m + (1 - beta2) g.
/// Symbolic Discovery of Optimization Algorithms, Chen et al., 2023. Biases and gains do not decay.
struct Lion : Optimizer {
    State m{this, "exp_avg"};
    Scalar lr{this, "lr", 1e-4}, beta1{this, "beta1", 0.9}, beta2{this, "beta2", 0.99};
    Scalar weight_decay{this, "weight-decay", 0.1};

    std::string name() const override { return "lion"; }
    Expr operator()(Expr w, Expr g) override {
        Expr c = beta1 * m + once(1 - beta1.exact) * g;
        Expr sign = select(c > 0, 1.0f, c < 0, -1.0f, 0.0f);
        m = beta2 * m + once(1 - beta2.exact) * g;
        return (decays ? w * once(1 - lr.exact * weight_decay.exact) : w) - lr * sign;
    }
};

}  // namespace cryolite
