#pragma once
// Whether what was trained is what should have been.

#include <nlohmann/json_fwd.hpp>

#include "apps/cryolite/fuzz/fuzz_case.h"

namespace cryolite {

/// How far two trainings are apart: `losses` relative to the loss, `weights` of the parameter that is furthest off, as
/// |difference of what was trained| / |what was trained|, in norms. Infinite where a number is not finite.
struct FuzzDistance {
    double losses = 0, weights = 0;
    std::string parameter{};
    bool diverged = false;  ///< the reference's loss grows beyond a bound: only losses before it are compared
};

/// Answers of `train_case`, and of the reference that began with its initial parameters. A parameter whose gradient
/// is small beside the largest counts less, as that gradient's rounding is of the size of the larger ones; where it is
/// rounding alone, not at all: rules that divide by the gradient's size make anything of it.
FuzzDistance distance_of(const nlohmann::json &trained, const nlohmann::json &reference, const StepConfig &step);

/// What counts as too far, for a format: a wiring mistake is off by whole terms, which rounding and another order of
/// additions are not.
FuzzDistance tolerance_of(const StepConfig &step);

/// What is too far, in words; empty: nothing.
std::string too_far(const FuzzDistance &d, const FuzzDistance &tolerance);

}  // namespace cryolite
