#pragma once

#include "runtime/device/cuda/launches.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

/// What a kernel of a bundle for the device cuda launches; nothing: a library computes it. Errors name the kernel.
std::vector<KernelLaunch> launches_of(const Bundle &bundle, int kernel);

}  // namespace cryolite
