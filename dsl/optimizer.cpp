#include "dsl/optimizer.h"

namespace cryolite {

namespace {

/// Scalars that mean the same in every rule.
struct Known {
    const char *name;
    RealRange range;
    const char *help;
};
constexpr Known known_scalars[] = {
    {"lr", RealRange::positive, "learning rate after the warm-up"},
    {"beta1", RealRange::fraction, "decay of the mean of gradients, or momentum"},
    {"beta2", RealRange::fraction, "decay of the mean of squared gradients"},
    {"eps", RealRange::not_negative, "added to the root that a gradient is divided by"},
    {"weight-decay", RealRange::not_negative, "decay of parameters of two or more dimensions"},
};

Known known(const std::string &name) {
    for (const Known &k : known_scalars)
        if (name == k.name) return k;
    return {"", RealRange::finite, ""};
}

}  // namespace

Scalar::Scalar(Optimizer *owner, std::string name, double value)
    : Scalar(owner, name, value, known(name).range, known(name).help) {}

}  // namespace cryolite
