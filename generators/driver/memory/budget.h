#pragma once

#include <functional>

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Takes the step of a model through all passes.
using Lower = std::function<StepProgram(const StepOptions &options)>;

/// No step that was tried fits into the budget.
struct DoesNotFit : UsageError {
    DoesNotFit(const std::string &message, int64_t least) : UsageError(message), least(least) {}
    int64_t least;  ///< the fewest bytes of those that were tried
};

/// Lowers a step so that it fits into `bytes`, which count the activations and what outlives a step; 0: no limit. In
/// the backward pass it rematerialises the values that cost least time for their bytes. Where that costs less, the
/// head's chunks have fewer rows, unless the options give them. Errors: DoesNotFit.
StepProgram lower_within(int64_t bytes, const StepOptions &options, const Lower &lower);

}  // namespace cryolite::compiler
