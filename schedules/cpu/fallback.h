#pragma once

#include "schedules/group.h"

namespace cryolite {

/// Halide's autoschedulers, the best first, then plain loops. Every argument of the pipeline must have estimates.
std::vector<AutomaticLoops> automatic_loops();

/// The best of Halide's autoschedulers with wider beams, which take minutes for a kernel, not seconds.
std::vector<AutomaticLoops> wider_automatic_loops();

/// The names of the values of the tunable `automatic`: 0, the written loops; automatic_loops(); the wider ones; tiled.
const std::vector<std::string> &automatic_names();

/// Reductions at root, the outermost dimension in parallel, the innermost vectorised.
void plain_loops(Group &g, const Machine &m);

}  // namespace cryolite
