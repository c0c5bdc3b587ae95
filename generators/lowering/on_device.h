#pragma once

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// A kernel of a device only launches there: errors name the layer, its loops, and the first loop over data, or single
/// element, that would be computed by the host, which has none of the data.
void check_on_device(const Halide::Module &module, const BuiltKernel &k, const std::string &device);

/// A lowering pass: Halide moves a condition that is the same for all of a loop out of it, where the host would read
/// what is on the device; here each thread asks it.
void conditions_in_threads(Halide::Pipeline &p);

}  // namespace cryolite::compiler
