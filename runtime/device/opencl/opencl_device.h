#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The first OpenCL device (Halide's HL_OCL_PLATFORM_NAME and HL_OCL_DEVICE_TYPE name another). Kernels and copies are
/// put into one queue, in order; only `finish` waits for it. The bundle of its kernels is opened before: it brings
/// Halide's runtime for OpenCL. Errors: what to install where there is none.
std::unique_ptr<Device> make_opencl_device();

}  // namespace cryolite
