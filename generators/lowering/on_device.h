#pragma once

#include "generators/lowering/kernel/kernel_builder.h"

namespace cryolite::compiler {

/// Throws where a kernel of a device leaves work to the host, which has none of the data. The error names the layer,
/// its loops, and the first loop or element that the host would compute.
void check_on_device(const Halide::Module &module, const BuiltKernel &k, const std::string &device);

/// Adds a lowering pass. Halide moves a condition that is the same for a whole loop out of it, where the host would
/// have to read data of the device. The pass moves the condition into each thread.
void conditions_in_threads(Halide::Pipeline &p);

}  // namespace cryolite::compiler
