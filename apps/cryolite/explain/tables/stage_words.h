#pragma once

#include <string>
#include <vector>

#include "bundle/plan.h"

namespace cryolite {

/// Where a stage is computed, as a line of the schedule has it: "compute_with up" of the plan's "with up".
std::string placed_words(const std::string &placed);
/// A line for each stage of a call; equal ones of several blocks are one, unless `each`.
std::vector<std::string> stage_lines(const PlanCall &call, bool each);

}  // namespace cryolite
