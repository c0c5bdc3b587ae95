#pragma once

#include "dsl/layers/activation.h"

namespace cryolite {

/// z = k x, elementwise. Written `k * x` in a model: the weight of one of several losses, say.
struct Times : Pointwise {
    const double k;
    explicit Times(double k) : Pointwise("times"), k(k) {
        if (!std::isfinite(k)) fail("[times] a tensor is multiplied by {}, expected a finite number", k);
    }
    std::optional<std::string> attributes() const override { return fmt::format("{}", k); }
    Expr value(Expr x) const override { return x * cast(x.type(), Expr(k)); }
    Expr slope(Expr x) const override { return cast(x.type(), Expr(k)); }
};

}  // namespace cryolite
