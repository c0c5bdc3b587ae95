#pragma once

#include "bundle/plan.h"
#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// The plan of a step with its kernels, from which the runtime runs the step.
Plan plan_of(const StepProgram &p, const Model &model, const CompileReport &compiled, const ir::MemoryPlan &memory);

}  // namespace cryolite::compiler
