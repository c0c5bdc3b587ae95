#pragma once
// Chooses where updates are placed and what is rematerialised, so that a run fits into memory.

#include <nlohmann/json.hpp>

#include "generators/driver/memory/budget.h"

namespace cryolite::compiler {

/// The memory of one process for a run, and which settings may be chosen so that the run fits.
struct MemoryRoom {
    int64_t bytes = 0;
    int64_t staging = 0;  ///< bytes that the run takes beside the step for each element of its largest tensor
    int replicas = 1;     ///< workers in this process
    bool update = true, recompute = true;  ///< whether --update and --recompute may be chosen
};

/// How a step that was asked for with `budget` bytes (0: any) fits:
///   {"roles": {role: bytes}, "largest": elements, "fits": bool, "way": WAY, "advice": WAY, "least": bytes}
/// `roles`, `largest` and `fits` describe the step as asked for. Where it does not fit, `way` has settings with which
/// it fits, of those that may be chosen. Where there are none, `advice` has settings with which it would fit if all
/// might be chosen. `least`: the fewest bytes of all steps that were tried. WAY is null or {"update", "budget",
/// "head_rows", "bytes"}.
nlohmann::json fit_step(const MemoryRoom &room, const StepOptions &options, int64_t budget, const Lower &lower);

/// Rounds down to one of 16 numbers between powers of two, so that a bundle's key rarely changes with the free memory.
int64_t round_budget(int64_t bytes);

}  // namespace cryolite::compiler
