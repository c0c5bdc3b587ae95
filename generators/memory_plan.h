#pragma once

#include "generators/compile.h"

namespace cryolite {

/// Where the activations of a step live in one arena.
struct MemoryPlan {
    std::map<int, int64_t> offset;  ///< buffer -> bytes from the start of the arena
    int64_t bytes = 0;              ///< size of the arena
    int64_t unshared = 0;           ///< what the same buffers would take without sharing
};

/// Gives every activation that some kernel touches an offset, so that no two that are alive at one time
/// overlap: largest first, each at the lowest place that is free during its life.
MemoryPlan plan_memory(const StepProgram &p, const std::vector<CompiledKernel> &kernels);

}  // namespace cryolite
