#pragma once
// What `explain` says of parameters: how they are stored, where they are updated and why.

#include <string>

#include "bundle/plan.h"

namespace cryolite {

struct ParameterUpdate {
    std::string place = "none", why;
};
/// Where a parameter's gradient and update are, and why: the stages of the plan say.
ParameterUpdate update_of(const Plan &plan, const std::string &parameter);

/// "panel(16) of dimension 1"
std::string layout_words(const PlanBuffer &parameter);
/// "64 x 8"; of a number alone "one value".
std::string shape_words(const std::vector<int> &extents);

/// A table; blocks whose parameters are equal in all of it are one row.
std::string parameters_text(const Plan &plan);

}  // namespace cryolite
