#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The device of this name, cpu or opencl; `threads` of a CPU, 0: all cores. Errors: what to install where there is none.
std::unique_ptr<Device> make_device(const std::string &name, int threads);

}  // namespace cryolite
