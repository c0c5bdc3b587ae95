#pragma once

#include "runtime/device/device.h"
#include "runtime/device/hardware.h"

namespace cryolite {

/// The first OpenCL device (Halide's HL_OCL_PLATFORM_NAME and HL_OCL_DEVICE_TYPE name another). Kernels and copies are
/// put into one queue, in order; `finish` and large uploads wait for it. Open a bundle of its kernels before: that
/// loads Halide's runtime for OpenCL. Errors: there is none; the message says what to install.
std::unique_ptr<Device> make_opencl_device();

/// The hardware of that device. Errors: as above.
Hardware opencl_hardware();

}  // namespace cryolite
