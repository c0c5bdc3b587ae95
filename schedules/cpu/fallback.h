#pragma once

#include "schedules/group.h"

namespace cryolite {

/// Halide's Adams2019 autoscheduler; every argument must have estimates. Returns its name.
std::string autoschedule(Halide::Pipeline &pipeline, const Machine &m);

/// Reductions at root, the outermost dimension in parallel, the innermost vectorised. Returns its name.
std::string plain_loops(Group &g, const Machine &m);

}  // namespace cryolite
