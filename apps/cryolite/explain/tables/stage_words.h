#pragma once

#include <string>
#include <vector>

#include "bundle/plan.h"

namespace cryolite {

/// Where a stage is computed, as a line of the schedule says it: "compute_with up" for the plan's "with up".
std::string placed_words(const std::string &placed);
/// A line for each stage of a call; unless `each`, stages that differ only in the number of their block are one line.
std::vector<std::string> stage_lines(const PlanCall &call, bool each);

}  // namespace cryolite
