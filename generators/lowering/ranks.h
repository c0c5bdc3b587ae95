#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// In how many dimensions a kernel sees each of its activations: as its layers say; pointwise layers follow
/// their neighbours. Throws where two layers of the kernel disagree.
std::map<ValueId, int> kernel_ranks(const StepProgram &p, const ir::Kernel &k);

/// A value of the forward pass that is not stored, computed once more in a kernel: the operation that does so.
ir::Op again_here(const StepProgram &p, const ir::Kernel &k, CallId c);

}  // namespace cryolite::compiler
