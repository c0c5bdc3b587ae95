#pragma once

#include "dsl/losses/row_loss.h"

namespace cryolite {

/// loss = mean over all elements of (x - t)^2, as torch.nn.MSELoss has it.
/// x: [outputs, ...rows], targets t of the same shape: real numbers -> [1].
struct MeanSquaredError : ElementwiseLoss {
    explicit MeanSquaredError(std::string path = "loss", RowLossOptions o = {}) : ElementwiseLoss(std::move(path), o) {}
    Expr value(Expr x, Expr t) const override { return (x - t) * (x - t); }
    Expr slope(Expr x, Expr t) const override { return 2 * (x - t); }
};

inline Tensor mean_squared_error(const Tensor &x, const Tensor &targets) {
    auto &loss = static_cast<MeanSquaredError &>(x.graph().own(std::make_unique<MeanSquaredError>()));
    return loss(x, targets);
}

}  // namespace cryolite
