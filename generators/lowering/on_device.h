#pragma once

#include "generators/lowering/kernel_builder.h"

namespace cryolite::compiler {

/// A kernel of a device only launches there: errors name the layer, its loops, and the first loop over data, or single
/// element, that would be computed by the host, which has none of the data.
void check_on_device(const Halide::Module &module, const BuiltKernel &k, const std::string &device);

}  // namespace cryolite::compiler
