#pragma once
// What a search over the lines of a step schedule asks of a generator program: which lines are legal, and the step's
// plan with each.

#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "bundle/plan.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Tries the lines that `moves_of` finds for a step, and the nearest legal lines that refusals name. `request` says
/// which lines to leave out: {"without": ["s(act).compute_root()", ...]}. Calls `tell` when a line is judged, with
/// {"line": text, "bytes": that it may save, "plan": the plan's file in `folder`} or {"line": text, "bytes": ...,
/// "refused": the reason}. `plan_with` makes the plan of the step with a line, or throws why the line is refused.
void try_lines(StepProgram &p, const std::string &request,
               const std::function<Plan(const std::string &line)> &plan_with, const std::string &folder,
               const std::function<void(const nlohmann::json &)> &tell);

}  // namespace cryolite::compiler
