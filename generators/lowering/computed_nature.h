#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// How much of its inputs an element of an operation's result needs, as its Funcs say: the element at the same place,
/// the same row, or more. `k` holds that operation alone. Builds Funcs.
ComputedNature computed_nature(const StepProgram &p, const ir::Kernel &k);

}  // namespace cryolite::compiler
