#pragma once

#include "bundle/plan.h"

namespace cryolite {

/// What all that reads a plan relies on: every index is in range, every array fits its buffer, no count overflows.
/// Throws what is wrong, by the name of the buffer, kernel or call.
void check_plan(const Plan &plan);

}  // namespace cryolite
