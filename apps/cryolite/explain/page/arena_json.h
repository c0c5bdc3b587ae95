#pragma once
// When each activation of a step is in the arena, and where: what a picture of the arena shows.

#include <nlohmann/json_fwd.hpp>

#include "bundle/plan.h"

namespace cryolite {

/// `calls`: how many the forward and the backward pass of one micro-batch have; `forward`: how many of them the forward
/// pass has; `buffers`: each activation with its `offset` and the `first` and the `last` call that touches it; `saved`:
/// the backward pass reads what the forward pass has written.
nlohmann::json arena_json(const Plan &plan);

}  // namespace cryolite
