#pragma once

#include <string>
#include <vector>

namespace cryolite {

/// bench --ablate: every directive of the step schedule on and off, at 32, 64, 256 and 1024 rows, or at those of
/// --context. Returns the exit status. `arguments`: those of bench, without --ablate.
int run_ablation(const std::vector<std::string> &arguments);

}  // namespace cryolite
