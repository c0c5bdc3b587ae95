#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// The names of parameters that a pattern may have meant, three at most, the nearest first.
std::vector<std::string> near_names(const StepProgram &p, const std::string &pattern);

}  // namespace cryolite::compiler
