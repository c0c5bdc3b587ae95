#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The host's cores: a team of `threads` OpenMP threads; 0: all that this process may use.
std::unique_ptr<Device> make_cpu_device(int threads);

/// Cores that this process may run on.
int usable_cores();

}  // namespace cryolite
