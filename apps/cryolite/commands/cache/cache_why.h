#pragma once

#include <string>
#include <vector>

namespace cryolite {

/// cryolite cache why APP [flags of train]: what the bundle would be made from, and how that differs from the nearest.
int run_cache_why(const std::vector<std::string> &arguments);

}  // namespace cryolite
