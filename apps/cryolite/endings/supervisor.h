#pragma once
// train --restarts: a process that starts the run as its child, and starts it again when it fails.

#include <string>
#include <vector>

#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// Whether a run with these settings is the child of a supervisor.
inline bool supervised(const TrainSettings &s) { return s.restarts > 0 || !s.launch.empty(); }

/// Runs `train` with these arguments as a child process, by the command of --launch if that is given. After a failure
/// it starts again from the run's newest checkpoint, at most --restarts times. With --launch, a second failure in a row
/// without a newer checkpoint is followed by a run with fewer workers, as fewer hosts may be left. Returns the run's
/// exit status: after 0, 2 and 130 it is not started again; any other failure is 1.
int run_supervised(const TrainSettings &settings, const std::vector<std::string> &arguments);

/// `arguments` without these flags and their values; a name with "=" behind it is a switch.
std::vector<std::string> without_flags(const std::vector<std::string> &arguments,
                                       const std::vector<std::string> &flags);

/// The largest number below `workers`, and at least 1, that divides the run's batch, or the parts that it is cut into.
int fewer_workers(const TrainSettings &settings, int workers);

}  // namespace cryolite
