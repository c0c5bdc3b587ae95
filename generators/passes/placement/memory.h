#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Gives an offset to every activation that some kernel touches, and to every gradient that one entry alone reads. No
/// two that are alive at one time overlap. The largest come first, each at the lowest place that is free during its
/// life. `touched`: by kernel.
ir::MemoryPlan place_activations(const StepProgram &p, const std::vector<std::vector<ValueId>> &touched);
/// Bytes by role of what is stored, with gradients, inputs and activations of so many of the workers. The activations'
/// are all of the arena.
std::map<ir::Role, int64_t> memory_by_role(const StepProgram &p, int replicas);
/// Their sum, of all workers.
int64_t step_bytes(const StepProgram &p);

/// What kernels compute values from that are never stored: the backward pass needs it as it is.
std::set<ValueId> sources_of_unstored(const StepProgram &p);

}  // namespace cryolite::compiler
