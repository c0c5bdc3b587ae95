#pragma once

#include "generators/step.h"

namespace cryolite::compiler {

/// In how many dimensions a kernel sees each of its activations: as its layers say; pointwise layers follow
/// their neighbours. Throws where two layers of the kernel disagree.
std::map<int, int> kernel_ranks(const StepProgram &p, const Kernel &k);

}  // namespace cryolite::compiler
