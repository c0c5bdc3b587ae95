#pragma once

#include "runtime/device/cuda/launches.h"
#include "runtime/plan/bundle.h"

namespace cryolite {

/// The GPU launches of one kernel of a bundle for cuda; empty where a library computes it. Errors name the kernel.
std::vector<KernelLaunch> launches_of(const Bundle &bundle, int kernel);

}  // namespace cryolite
