#pragma once

#include "bundle/plan.h"

namespace cryolite {

/// Checks what every reader of a plan relies on: every index is in range, every array fits its buffer, no count
/// overflows. Errors name the buffer, kernel or call.
void check_plan(const Plan &plan);

}  // namespace cryolite
