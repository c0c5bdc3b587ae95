#pragma once

#include "generators/compile.h"

namespace cryolite::compiler {

/// Where the activations of a step live in one arena.
struct MemoryPlan {
    std::map<int, int64_t> offset;  ///< buffer -> bytes from the start of the arena
    int64_t bytes = 0;              ///< size of the arena
    int64_t unshared = 0;           ///< what the same buffers would take without sharing
};

/// Gives every activation that some kernel touches an offset, so that no two that are alive at one time
/// overlap: largest first, each at the lowest place that is free during its life.
MemoryPlan plan_memory(const StepProgram &p, const std::vector<CompiledKernel> &kernels);
/// The same from the buffers that each kernel touches.
MemoryPlan plan_memory(const StepProgram &p, const std::vector<std::vector<int>> &touched);
/// The same before the kernels are compiled, from what their stages read and write.
MemoryPlan predict_memory(const StepProgram &p);
/// Bytes of what outlives a step: parameters and optimizer state, and each worker's stored gradients and inputs.
int64_t kept_bytes(const StepProgram &p);

}  // namespace cryolite::compiler
