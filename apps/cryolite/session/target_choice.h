#pragma once
// --target against the processor of this machine.

#include "apps/cryolite/session/settings.h"
#include "bundle/target.h"

namespace cryolite {

/// As `uname -m` has it.
std::string this_machine();

/// Of what targets' kernels may use, what this processor has, by the names of gcc's __builtin_cpu_supports.
const std::vector<std::string> &processor_features();

/// What kernels for the target need and this machine has not; empty: they run here.
std::string what_lacks_here(const TargetLine &target);

/// Throws UsageError for a --target that the command cannot take.
void check_target(const TrainSettings &settings, Command command);

}  // namespace cryolite
