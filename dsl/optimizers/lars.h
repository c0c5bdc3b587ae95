#pragma once

#include "dsl/optimizer.h"

namespace cryolite {

/// r = trust |w| / (|g| + weight_decay |w|),  v = momentum v + lr r (g + weight_decay w),  w = w - v.
/// Large Batch Training of Convolutional Networks, You et al., 2017. Biases and gains have r = 1 and do not decay, and
/// r is 1 where a norm is 0. beta1 is momentum.
struct Lars : Optimizer {
    State v{this, "momentum_buffer"};
    Scalar lr{this, "lr", 1.0}, momentum{this, "beta1", 0.9}, weight_decay{this, "weight-decay", 1e-4};
    Scalar trust{this, "trust", 1e-3, RealRange::positive, "share of a parameter's norm that an update may have"};
    Norm of_w{this, Norm::weight}, of_g{this, Norm::gradient};

    std::string name() const override { return "lars"; }
    Expr operator()(Expr w, Expr g) override {
        if (decays) {
            Expr ratio = trust * of_w / (of_g + weight_decay * of_w);
            g = select(of_w > 0 && of_g > 0, ratio, Halide::cast(ratio.type(), 1)) * (g + weight_decay * w);
        }
        v = momentum * v + lr * g;
        return w - v;
    }
};

}  // namespace cryolite
