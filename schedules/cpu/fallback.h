#pragma once

#include "schedules/group.h"

namespace cryolite::cpu {

/// Reductions at root, the outermost dimension in parallel, the innermost vectorised.
void plain_loops(Group &g, const Machine &m);

}  // namespace cryolite::cpu
