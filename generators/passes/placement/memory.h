#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Gives every activation that some kernel touches an offset, so that no two that are alive at one time overlap:
/// largest first, each at the lowest place that is free during its life. `touched`: by kernel.
ir::MemoryPlan place_activations(const StepProgram &p, const std::vector<std::vector<ValueId>> &touched);
/// Bytes by role of what is stored, with gradients, inputs and activations of so many of the workers.
std::map<ir::Role, int64_t> memory_by_role(const StepProgram &p, int replicas);
/// Their sum, of all workers.
int64_t step_bytes(const StepProgram &p);

/// What kernels compute values from that are never stored: the backward pass needs it as it is.
std::set<ValueId> sources_of_unstored(const StepProgram &p);

}  // namespace cryolite::compiler
