#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// What a kernel reads or writes.
struct Touched {
    std::vector<ValueId> values = {};
    ValueId replaceable = {}, result = {};  ///< the first may lie where the second does; none: no two values may
};

/// Gives an offset to every activation that some kernel touches, and to every gradient that one entry alone reads. No
/// two that are alive at one time overlap, except a value that a kernel replaces: where no later kernel reads it, the
/// result takes its place. The largest come first, each at the lowest place that is free during its life. `touched`: by
/// kernel.
ir::MemoryPlan place_activations(const StepProgram &p, const std::vector<Touched> &touched);
/// Bytes of the stored values, by role. Gradients, inputs and activations count once for each of `replicas` workers.
/// The bytes of activations are those of the arena.
std::map<ir::Role, int64_t> memory_by_role(const StepProgram &p, int replicas);
/// The sum of these bytes for all workers.
int64_t step_bytes(const StepProgram &p);

/// The values from which kernels compute again others that are never stored. The backward pass needs them stored.
std::set<ValueId> sources_of_unstored(const StepProgram &p);

}  // namespace cryolite::compiler
