#pragma once

#include <string>
#include <vector>

#include "bundle/plan.h"

namespace cryolite {

/// A table of where a step's time goes, by kernel and loop schedule: `seconds` of every call of a
/// step (Trainer::profile), added up over `steps` of them.
std::string kernel_table(const Plan &plan, const std::vector<double> &seconds, int accumulate, size_t steps);

}  // namespace cryolite
