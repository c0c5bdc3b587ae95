#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// What of its inputs an element of an operation's result needs, by its Funcs: the same place, the same row, or more.
/// `k` holds that operation alone. Builds Funcs.
ComputedNature computed_nature(const StepProgram &p, const ir::Kernel &k);

}  // namespace cryolite::compiler
