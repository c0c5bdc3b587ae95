#pragma once

#include "runtime/device/make_device.h"

namespace cryolite {

/// A GPU that CUDA's driver shows (CUDA_VISIBLE_DEVICES says which these are). Kernels and copies are put into
/// streams; `finish` and `await` alone wait for them. Calls that have a Replay are captured as one graph when they are
/// run for the second time, and launched as that from then on. The bundle of the kernels is opened before. Errors: no
/// driver, an old one, no GPU, too few of them, each with what helps.
std::unique_ptr<Device> make_cuda_device(const GpuChoice &choice = {});

/// Errors: there is no driver that could be used, as `make_cuda_device` has them.
void check_cuda_driver();

}  // namespace cryolite
