#pragma once
// The lines of a step whose program asks for `s.automatic()`, or writes none.

#include <functional>

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Adds lines to the step for stages that have none: fusions that cost no time, those that save most bytes first, where
/// the passes find them legal beside the program's own lines. The same program always gets the same lines. `lower`
/// takes the model through all passes with the lines that the step has when it is called. Errors: those of `lower`.
void choose_lines(Step &step, const std::function<StepProgram()> &lower);

}  // namespace cryolite::compiler
