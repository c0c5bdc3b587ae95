#pragma once
// What workers with GPUs of their own send each other in a step, and what their kernels do meanwhile.

#include <nlohmann/json_fwd.hpp>

#include "bundle/plan.h"

namespace cryolite {

/// The exchanges by plan, in the order of their stream: {"step": [{"parts": [{"kind", "of", "role", "bytes"}, ...],
/// "bytes", "sent_bytes", "after", "before", "meanwhile", "flops_meanwhile"}, ...]}. `bytes`: of the arrays;
/// `sent_bytes`: what each worker sends of them at least; `after`, `before`: names of calls; `meanwhile`: how many
/// kernel calls of a worker lie between. Empty where workers share a memory.
nlohmann::json exchanges_json(const Plan &plan);
/// Prints them; those of equal blocks are one line.
void print_exchanges(const Plan &plan);

}  // namespace cryolite
