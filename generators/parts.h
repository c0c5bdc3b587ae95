#pragma once

#include "generators/step.h"

namespace cryolite::compiler {

/// Elements of a parameter's storage that one worker updates, and has the sum of the gradients of.
struct PartOf {
    int worker;
    int64_t begin, count;
};

/// Divides the storage of every parameter among `p.workers`: a large one in equal parts, a small one, which is not worth
/// as many messages, whole to whoever has least.
std::map<const Parameter *, std::vector<PartOf>> divide(const StepProgram &p);

}  // namespace cryolite::compiler
