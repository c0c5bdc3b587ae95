#pragma once

#include <nlohmann/json.hpp>

#include "generators/memory_plan.h"

namespace cryolite {

/// The plan as JSON: the contract with the runtime, described in docs/plan.md.
nlohmann::json plan_json(const StepProgram &p, const Model &model, const CompileReport &compiled,
                         const MemoryPlan &memory);

/// Links the kernels of a step into `path`, a shared library without dependencies.
void link_kernels(const CompileReport &compiled, const std::string &store, const std::string &path);

}  // namespace cryolite
