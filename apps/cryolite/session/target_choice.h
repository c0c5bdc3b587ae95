#pragma once
// --target against the processor of this machine.

#include "apps/cryolite/session/settings.h"
#include "bundle/target.h"

namespace cryolite {

/// The name of this machine, as `uname -m` prints it.
std::string this_machine();

/// Of the features that kernels of a target may use, those of this processor, as gcc's __builtin_cpu_supports has them.
const std::vector<std::string> &processor_features();

/// What kernels for the target need and this machine does not have; empty: they run here.
std::string what_lacks_here(const TargetLine &target);

/// Throws UsageError for a --target that the command cannot take.
void check_target(const TrainSettings &settings, Command command);

}  // namespace cryolite
