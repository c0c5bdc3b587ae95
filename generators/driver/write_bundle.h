#pragma once

#include <nlohmann/json.hpp>

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// The plan as JSON: the contract with the runtime, described in docs/plan.md.
nlohmann::json plan_json(const StepProgram &p, const Model &model, const CompileReport &compiled,
                         const ir::MemoryPlan &memory);

}  // namespace cryolite::compiler
