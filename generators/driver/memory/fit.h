#pragma once
// Where updates are placed and what is rematerialised, so that a run fits into memory.

#include <nlohmann/json.hpp>

#include "generators/driver/memory/budget.h"

namespace cryolite::compiler {

/// Memory for a run, in one process, and what may be chosen for it.
struct MemoryRoom {
    int64_t bytes = 0;
    int64_t staging = 0;  ///< bytes that the run takes beside the step for each element of its largest tensor
    int replicas = 1;     ///< workers in this process
    bool update = true, recompute = true;  ///< whether --update and --recompute are open
};

/// How a step that was asked for with `budget` bytes (0: any) fits:
///   {"roles": {role: bytes}, "largest": elements, "fits": bool, "way": WAY, "advice": WAY, "least": bytes}
/// `roles` are of the step as asked for. `way`: where that does not fit, what does of what is open; `advice`: where
/// nothing does, what would with all open; `least`: of all steps that were tried.
/// WAY is null or {"update", "budget", "head_rows", "bytes"}.
nlohmann::json fit_step(const MemoryRoom &room, const StepOptions &options, int64_t budget, const Lower &lower);

/// The largest of 16 numbers between powers of two that is not above `bytes`: what is free just now decides no further
/// digit of a bundle's key.
int64_t round_budget(int64_t bytes);

}  // namespace cryolite::compiler
