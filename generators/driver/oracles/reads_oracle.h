#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Finds what operations read by building each alone, without a loop schedule: in children, `jobs` at a time, each
/// within `time_limit` seconds. Errors: an operation cannot be built; of several, the first of the step is named.
ReadsOracle reads_by_building(const Machine &m, int jobs, int time_limit);

}  // namespace cryolite::compiler
