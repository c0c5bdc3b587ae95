#pragma once

#include "bundle/step_config.h"
#include "schedules/group.h"

namespace cryolite::compiler {

/// What the kernels of a step are compiled for: --target on its device, or a target as Halide spells it, where one is
/// given. Errors: several targets.
Machine machine_for(const StepConfig &step, const std::string &halide_target);

}  // namespace cryolite::compiler
