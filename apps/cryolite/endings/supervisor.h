#pragma once
// train --restarts: a process that starts the run as its child, and starts it again when it fails.

#include <string>
#include <vector>

#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// Whether a run with these settings is the child of a supervisor.
inline bool supervised(const TrainSettings &s) { return s.restarts > 0 || !s.launch.empty(); }

/// Runs `train` with these arguments as a child, behind --launch where that is given, and after a failure again from
/// the run's newest checkpoint, --restarts times. Every restart begins with all workers; one that ends without a newer
/// checkpoint is followed by one with fewer, where --launch may find fewer hosts. The exit status is the run's: 0, 2
/// and 130 are not started again; all else is 1.
int run_supervised(const TrainSettings &settings, const std::vector<std::string> &arguments);

/// `arguments` without these flags and their values; a name with "=" behind it is a switch.
std::vector<std::string> without_flags(const std::vector<std::string> &arguments,
                                       const std::vector<std::string> &flags);

/// The largest smaller number of workers that can share a batch of the run, or the parts that it is cut into.
int fewer_workers(const TrainSettings &settings, int workers);

}  // namespace cryolite
