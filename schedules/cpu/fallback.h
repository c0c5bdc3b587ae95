#pragma once

#include "schedules/group.h"

namespace cryolite {

/// The loops of a kernel that has no schedule of its own. Returns what was used.
std::string fallback(Group &g, Halide::Pipeline &pipeline, const Machine &m);

}  // namespace cryolite
