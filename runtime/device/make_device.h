#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// Which of several GPUs.
struct GpuChoice {
    int ordinal = 0;          ///< as the driver counts those that it shows
    bool seen_alone = false;  ///< where it shows one GPU, that is it: a launcher gives each process its own
};

/// The device of this name, cpu, opencl or cuda; `threads` of a CPU and the `cores` they stay on, as of
/// `make_cpu_device`. Errors: what to install where there is none.
std::unique_ptr<Device> make_device(const std::string &name, int threads, std::vector<int> cores = {},
                                    const GpuChoice &gpu = {});

/// Before its kernels are compiled: errors, where it is known already that there is no device of this name here.
void check_device(const std::string &name);

}  // namespace cryolite
