#pragma once
// A model's head and its loss, block of rows by block of rows: a block's logits are used up before the next one's exist.

#include "generators/step.h"

namespace cryolite::compiler {

/// Where the step schedule asks for it, or the logits are large: adds to the trace, of a model with output `y`, for each
/// block of rows a call of the head and one of the loss, and the mean of these losses, which is returned instead of `loss`.
/// Refuses a line that is not legal.
Tensor split_head(StepProgram &p, const StepOptions &options, const Tensor &y, const Tensor &loss);

}  // namespace cryolite::compiler
