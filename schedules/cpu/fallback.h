#pragma once

#include "schedules/group.h"

namespace cryolite {

/// Halide's autoschedulers, the best first, then plain loops. Every argument of the pipeline must have estimates.
std::vector<AutomaticLoops> automatic_loops();

/// Reductions at root, the outermost dimension in parallel, the innermost vectorised.
void plain_loops(Group &g, const Machine &m);

}  // namespace cryolite
