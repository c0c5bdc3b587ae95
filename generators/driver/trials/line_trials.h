#pragma once
// What a search over the lines of a step schedule asks of a generator program: which lines are legal, and the step's
// plan with each.

#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "bundle/plan.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Tries what `moves_of` has of a step, but for the lines of `request`, {"without": ["s(act).compute_root()", ...]},
/// and the nearest legal line that a refusal names. Tells as each is judged: {"line": text, "bytes": that
/// it may save, "plan": file}, the plan written to FOLDER, or {"line": text, "bytes": ..., "refused": by which rule}.
/// `plan_with` makes the plan of the step with a line, and throws what refuses it.
void try_lines(StepProgram &p, const std::string &request,
               const std::function<Plan(const std::string &line)> &plan_with, const std::string &folder,
               const std::function<void(const nlohmann::json &)> &tell);

}  // namespace cryolite::compiler
