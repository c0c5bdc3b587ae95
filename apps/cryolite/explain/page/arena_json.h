#pragma once
// When each activation of a step is there, and where: what a picture of the arena shows.

#include <nlohmann/json_fwd.hpp>

#include "bundle/plan.h"

namespace cryolite {

/// `calls` of the forward and the backward pass of one micro-batch, how many of them are `forward`, and `buffers`: each
/// activation with its `offset`, from the `first` call that touches it to the `last`; `saved`: the backward pass reads
/// what the forward pass has written.
nlohmann::json arena_json(const Plan &plan);

}  // namespace cryolite
