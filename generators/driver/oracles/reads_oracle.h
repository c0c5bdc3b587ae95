#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Says what operations read by building each alone, as its algorithm is: in children, `jobs` at a time, each within
/// `time_limit` seconds. Errors: of several operations that cannot be built, the first of the step.
ReadsOracle reads_by_building(const Machine &m, int jobs, int time_limit);

}  // namespace cryolite::compiler
