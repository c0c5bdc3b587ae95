#pragma once
// cryolite explain APP --diff A.schedule B.schedule: what the lines of one file buy beside those of another.

#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// Prints both steps by kernel: FLOPs, bytes and the time that the machine's roofs allow, nothing compiled. With --json
/// one object. Errors: a file that cannot be read, or whose lines are refused.
int explain_difference(TrainSettings settings, const Request &request, const std::vector<std::string> &files);

}  // namespace cryolite
