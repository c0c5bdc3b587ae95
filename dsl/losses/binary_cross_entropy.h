#pragma once

#include "dsl/losses/row_loss.h"

namespace cryolite {

/// loss = mean over elements of -t log(p) - (1 - t) log(1 - p), p = 1 / (1 + exp(-x)), computed as
/// max(x, 0) - x t + log(1 + exp(-|x|)), which never overflows. Each output is a yes-or-no answer of its own.
/// x: [n, ...rows], t: [n, ...rows] in 0 ... 1, float32 or int32 -> [1]. torch.nn.BCEWithLogitsLoss.
struct BinaryCrossEntropy : ElementwiseLoss {
    explicit BinaryCrossEntropy(std::string path = "loss", RowLossOptions o = {})
        : ElementwiseLoss(std::move(path), o) {}
    Expr value(Expr x, Expr t) const override { return max(x, number(x.type(), 0)) - x * t + log(1 + exp(-abs(x))); }
    Expr slope(Expr x, Expr t) const override { return 1 / (1 + exp(-x)) - t; }
    Expr slope_by_target(Expr x, Expr) const override { return -x; }
};

}  // namespace cryolite
