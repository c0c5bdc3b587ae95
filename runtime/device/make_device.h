#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// Which of several GPUs.
struct GpuChoice {
    int ordinal = 0;          ///< in the driver's numbering of the visible GPUs
    bool seen_alone = false;  ///< if only one GPU is visible, take it: a launcher has given each process its own
};

/// The device of this name: cpu, opencl or cuda. `threads` and `cores` of a CPU: as of `make_cpu_device`. Errors: there
/// is none; the message says what to install.
std::unique_ptr<Device> make_device(const std::string &name, int threads, std::vector<int> cores = {},
                                    const GpuChoice &gpu = {});

/// Throws where it is known before any kernel is compiled that this machine has no device of this name.
void check_device(const std::string &name);

}  // namespace cryolite
