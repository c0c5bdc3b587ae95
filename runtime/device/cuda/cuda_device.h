#pragma once

#include "runtime/device/hardware.h"
#include "runtime/device/make_device.h"

namespace cryolite {

/// A GPU that CUDA's driver shows (CUDA_VISIBLE_DEVICES selects which). Kernels and copies are put into streams;
/// `finish`, `await` and large uploads wait for them. Calls with a Replay are captured as a graph in their second run,
/// and launched as that graph from then on. Open a bundle of the kernels before. Errors: no driver, an old one, no GPU,
/// or too few; each message says what helps.
std::unique_ptr<Device> make_cuda_device(const GpuChoice &choice = {});

/// The first GPU. Errors: as above.
Hardware cuda_hardware();

/// Throws where there is no usable driver, as `make_cuda_device` does.
void check_cuda_driver();

}  // namespace cryolite
