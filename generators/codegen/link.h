#pragma once
// From compiled kernels to what the runtime loads.

#include "generators/codegen/compile.h"

namespace cryolite::compiler {

/// Links the kernels of a step into FOLDER/kernels.so, a shared library without dependencies. Where the kernels call
/// more of Halide's runtime than every training process has (docs/plan.md), writes FOLDER/halide_runtime.so, too:
/// kernels of a device do, and a layer that calls `print`. Errors: ld.lld is missing, or fails.
void link_kernels(const CompileReport &compiled, const CompileOptions &options, const Halide::Target &target,
                  const std::string &folder);

}  // namespace cryolite::compiler
