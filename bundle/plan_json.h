#pragma once
// The plan as the text of plan.json, read and written by one list of members.

#include <string>

#include "bundle/plan.h"

namespace cryolite {

/// Reads and checks a plan; errors name the file, `origin`, and what is wrong in it.
Plan read_plan(const std::string &text, const std::string &origin);
/// The text from which `read_plan` makes this plan. It does not hold what `choose` has chosen.
std::string plan_text(const Plan &plan);
/// The format that a file's text says it has, "?" where it says none.
std::string plan_format(const std::string &text);

}  // namespace cryolite
