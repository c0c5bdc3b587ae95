#pragma once

#include "generators/step.h"

namespace cryolite {

/// How much of its inputs an element of a stage needs.
Nature stage_nature(const StepProgram &p, const StageSpec &s);
/// Every buffer that a stage may read: the kernel's own list, known once it is built, is shorter.
std::vector<int> stage_reads(const StepProgram &p, const StageSpec &s);

}  // namespace cryolite
