#pragma once

#include "bundle/plan.h"
#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// The plan of a step and its kernels: what the runtime is told of it.
Plan plan_of(const StepProgram &p, const Model &model, const CompileReport &compiled, const ir::MemoryPlan &memory);

}  // namespace cryolite::compiler
