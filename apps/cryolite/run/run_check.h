#pragma once
// Whether the folder of a run is whole.

#include <optional>
#include <string>
#include <vector>

#include "runtime/files/checkpoint.h"

namespace cryolite {

struct RunCheck {
    std::vector<std::string>
        mistakes;  ///< what is missing, damaged or not the newest checkpoint's; empty: the run is whole
    std::optional<Checkpoint> newest;  ///< the newest one that is whole
    size_t checkpoints = 0;            ///< all that are there
};

/// Reads every byte of the checkpoints and of the result. Errors: a file that cannot be read, be it whole or not.
RunCheck check_run(const fs::path &folder);

}  // namespace cryolite
