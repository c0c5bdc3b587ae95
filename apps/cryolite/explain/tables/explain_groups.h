#pragma once

#include <nlohmann/json.hpp>

#include "bundle/plan.h"

namespace cryolite {

/// Parameters that are trained at rates or decays of their own: their settings and names.
nlohmann::json group_json(const Plan &plan, const PlanGroup &group);
/// Prints all groups for people; nothing where there are none.
void print_groups(const Plan &plan);

}  // namespace cryolite
