#pragma once

#include "bundle/step_config.h"
#include "schedules/group.h"

namespace cryolite::compiler {

/// The machine that the kernels of a step are compiled for: the step's --target and --device, or `halide_target`, a
/// target in Halide's spelling, unless that is empty. Errors: --target names several targets.
Machine machine_for(const StepConfig &step, const std::string &halide_target);

}  // namespace cryolite::compiler
