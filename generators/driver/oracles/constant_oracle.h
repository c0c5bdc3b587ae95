#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Runs the layer in a child process, in float64, and rounds once.
ConstantOracle constants_by_running(int time_limit);

}  // namespace cryolite::compiler
