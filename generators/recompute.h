#pragma once

#include <functional>

#include "generators/step.h"

namespace cryolite::compiler {

/// Builds, analyses and partitions the step of a model anew: `p` is empty before.
using MakeStep = std::function<void(StepProgram &p, const StepOptions &options)>;

/// Makes the step that fits into `bytes` (what outlives a step and the activations), building again in the backward
/// pass what costs least time for its bytes, and with smaller blocks of the head where that costs less (but for
/// `same_bits`); 0: no limit. Errors: the least that is possible, where that is more.
void make_step(StepProgram &p, StepOptions options, int64_t bytes, const MakeStep &make);

}  // namespace cryolite::compiler
