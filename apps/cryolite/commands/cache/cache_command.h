#pragma once
// cryolite cache ls|verify|clear|why|export|import: looks after the compiled bundles and kernels.

#include <string>
#include <vector>

namespace cryolite {

/// `arguments`: what follows "cache". Returns the exit status.
int run_cache(const std::vector<std::string> &arguments);

}  // namespace cryolite
