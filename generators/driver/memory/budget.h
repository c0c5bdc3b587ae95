#pragma once

#include <functional>

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Takes the step of a model through all passes.
using Lower = std::function<StepProgram(const StepOptions &options)>;

/// No step that was tried takes as few bytes as it may.
struct DoesNotFit : Error {
    DoesNotFit(const std::string &message, int64_t least) : Error(message), least(least) {}
    int64_t least;  ///< of those that were tried
};

/// The step that fits into `bytes` (what outlives a step and the activations), materialising again in the backward pass
/// what costs least time for its bytes, and with smaller chunks of the head's rows where that costs less,
/// unless they are given; 0: no limit. Errors: DoesNotFit.
StepProgram lower_within(int64_t bytes, const StepOptions &options, const Lower &lower);

}  // namespace cryolite::compiler
