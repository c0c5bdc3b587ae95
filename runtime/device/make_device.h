#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The device of this name, cpu or opencl; `threads` of a CPU and the `cores` they stay on, as of `make_cpu_device`.
/// Errors: what to install where there is none.
std::unique_ptr<Device> make_device(const std::string &name, int threads, std::vector<int> cores = {});

}  // namespace cryolite
