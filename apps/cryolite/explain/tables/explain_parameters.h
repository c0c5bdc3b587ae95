#pragma once
// What `explain` says of parameters: how they are stored, where they are updated and why.

#include <string>

#include "bundle/plan.h"

namespace cryolite {

struct ParameterUpdate {
    std::string place = "none", why;
};
/// Where a parameter is updated and why, as the stages of the plan say.
ParameterUpdate update_of(const Plan &plan, const std::string &parameter);

/// "row_major", or "panels(16, 1)": panels of 16 elements of dimension 1
std::string layout_words(const PlanBuffer &parameter);
/// "64 x 8"; of a scalar "one value".
std::string shape_words(const std::vector<int> &extents);

/// A table of all parameters. Those that differ only in the number of their block are one row.
std::string parameters_text(const Plan &plan);

}  // namespace cryolite
