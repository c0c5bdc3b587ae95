#pragma once
// From compiled kernels to what the runtime loads.

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// Links the kernels of a step into FOLDER/kernels.so, a shared library without dependencies. What they call of
/// Halide's runtime beyond what every process that trains has (docs/plan.md) comes with them, in
/// FOLDER/halide_runtime.so: that of a device, or of `print` in a layer that is being looked into. Errors: ld.lld is
/// missing, or its own message.
void link_kernels(const CompileReport &compiled, const CompileOptions &options, const Halide::Target &target,
                  const std::string &folder);

}  // namespace cryolite::compiler
