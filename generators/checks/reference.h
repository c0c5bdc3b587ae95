#pragma once
// Steps of a model in float64, evaluated layer by layer. A compiled step is compared with them.

#include <string>

#include "dsl/model.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Trains a model without the compiler's passes and schedules, and returns the result. Each call of the trace is
/// evaluated by itself: forwards, then its gradient, in reverse order. Then gradients are clipped and the optimizer's
/// rule is applied. Of the options only `clip`, `freeze` and `param_groups` are used. `job` and the answer are JSON;
/// arrays are flat, with the innermost dimension first, and each batch is one step:
///     {"scalars": {"lr": 0.1, "clip": 1, ...}, "parameters": {"l0.weight": [...], ...},
///      "batches": [{"input": [...], "targets": [...]}, ...]}
///     {"losses": [...], "evaluation": L, "parameters": {...}, "gradients": {"l0.weight": N, ...}}
/// L is the loss of the last batch after all steps, N the largest norm that a parameter's gradient had in any step.
/// Throws where numbers are missing, or where an array has not the size that the model expects.
std::string reference_steps(Model &model, Optimizer &optimizer, const StepOptions &options, const std::string &job);

}  // namespace cryolite::compiler
