#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Computes a layer of constants in a child process, in float64, and rounds each result to float32 once.
ConstantOracle constants_by_running(int time_limit);

}  // namespace cryolite::compiler
