#pragma once

#include "generators/step.h"

namespace cryolite::compiler {

/// How much of its inputs an element of a stage needs.
Nature stage_nature(const StepProgram &p, const StageSpec &s);
/// The buffers that a stage reads; before `analyse`, all that it may read.
std::vector<int> stage_reads(const StepProgram &p, const StageSpec &s);

}  // namespace cryolite::compiler
