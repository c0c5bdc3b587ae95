#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Gives an offset to every activation that some kernel touches, and to every gradient that one entry alone reads. No
/// two that are alive at one time overlap. The largest come first, each at the lowest place that is free during its
/// life. `touched`: for each kernel, the values that it reads or writes.
ir::MemoryPlan place_activations(const StepProgram &p, const std::vector<std::vector<ValueId>> &touched);
/// Bytes of the stored values, by role. Gradients, inputs and activations count once for each of `replicas` workers.
/// The bytes of activations are those of the arena.
std::map<ir::Role, int64_t> memory_by_role(const StepProgram &p, int replicas);
/// The sum of these bytes for all workers.
int64_t step_bytes(const StepProgram &p);

/// The values from which kernels compute again others that are never stored. The backward pass needs them stored.
std::set<ValueId> sources_of_unstored(const StepProgram &p);

}  // namespace cryolite::compiler
