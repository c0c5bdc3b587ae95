#pragma once

#include <functional>

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Takes the step of a model through all passes.
using Lower = std::function<StepProgram(const StepOptions &options)>;

/// The step that fits into `bytes` (what outlives a step and the activations), materialising again in the backward pass
/// what costs least time for its bytes, and with smaller blocks of the head where that costs less (but for `same_bits`);
/// 0: no limit. Errors: the least that is possible, where that is more.
StepProgram lower_within(int64_t bytes, const StepOptions &options, const Lower &lower);

}  // namespace cryolite::compiler
