#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The first GPU that CUDA's driver shows (CUDA_VISIBLE_DEVICES names another). Kernels and copies are put into
/// streams; `finish` and `await` alone wait for them. Calls that have a Replay are captured as one graph when they are
/// run for the second time, and launched as that from then on. The bundle of the kernels is opened before. Errors: no
/// driver, an old one, no GPU, each with what helps.
std::unique_ptr<Device> make_cuda_device();

/// Errors: there is no driver that could be used, as `make_cuda_device` has them.
void check_cuda_driver();

}  // namespace cryolite
