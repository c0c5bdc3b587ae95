#pragma once
// Compares a training with its reference.

#include <nlohmann/json_fwd.hpp>

#include "apps/cryolite/fuzz/fuzz_case.h"

namespace cryolite {

/// How far two trainings are apart. `losses`: relative to the loss; `weights`: of the parameter that is furthest off,
/// |difference of the changes by training| / |change by training|, in norms. Infinite where a number is not finite.
struct FuzzDistance {
    double losses = 0, weights = 0;
    std::string parameter{};
    bool diverged = false;  ///< the reference's loss grows beyond a bound: only losses before it are compared
};

/// Compares the answer of `train_case` with that of the reference, which began with the same parameters. A parameter
/// whose gradient is small beside the largest one counts less, as its rounding errors come from larger ones. If the
/// gradient is rounding alone, the parameter does not count: a rule that divides by the gradient's size enlarges it.
FuzzDistance distance_of(const nlohmann::json &trained, const nlohmann::json &reference, const StepConfig &step);

/// What counts as too far, for a format: a wiring mistake is off by whole terms, which rounding and another order of
/// additions are not.
FuzzDistance tolerance_of(const StepConfig &step);

/// What is too far, in words; empty: nothing.
std::string too_far(const FuzzDistance &d, const FuzzDistance &tolerance);

}  // namespace cryolite
