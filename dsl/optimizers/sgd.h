#pragma once

#include "dsl/optimizer.h"

namespace cryolite {

/// g = g + weight_decay w,  v = momentum v + g,  w = w - lr v: as torch.optim.SGD. beta1 is momentum.
/// Biases and gains do not decay.
struct Sgd : Optimizer {
    State v{this, "momentum_buffer"};
    Scalar lr{this, "lr", 1e-2}, momentum{this, "beta1", 0.9}, weight_decay{this, "weight-decay", 0};

    std::string name() const override { return "sgd"; }
    Expr operator()(Expr w, Expr g) override {
        if (decays) g = g + weight_decay * w;
        v = momentum * v + g;
        return w - lr * v;
    }
};

}  // namespace cryolite
