#pragma once
// Steps of a model in float64, call by call as its layers say them: what a compiled step is compared with.

#include <string>

#include "dsl/model.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Trains a model and says what comes out. Nothing of the compiler's passes or schedules is used: the calls of the
/// trace are evaluated forwards and, in reverse, their own gradients, each alone; then gradients are clipped and the
/// optimizer's rule is applied. Of the options `clip`, `freeze` and `param_groups` count. `job` and the answer are
/// JSON, with numbers innermost first and a step a batch:
///     {"scalars": {"lr": 0.1, "clip": 1, ...}, "parameters": {"l0.weight": [...], ...},
///      "batches": [{"input": [...], "targets": [...]}, ...]}
///     {"losses": [...], "evaluation": L, "parameters": {...}, "gradients": {"l0.weight": N, ...}}
/// L is the loss of the last batch after all steps, N the largest norm that a parameter's gradient had in any step.
/// Errors: numbers are missing, or not as many as the model takes.
std::string reference_steps(Model &model, Optimizer &optimizer, const StepOptions &options, const std::string &job);

}  // namespace cryolite::compiler
