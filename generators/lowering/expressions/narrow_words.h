#pragma once

#include <Halide.h>

namespace cryolite::compiler {

/// Adds a lowering pass for devices: arrays of bfloat16 become arrays of 16-bit integers, and conversions become
/// integer operations. Halide's code for GPUs has no bfloat16, and OpenCL has float16 only as an extension.
void bfloat16_as_words(Halide::Pipeline &p);
void narrow_as_words(Halide::Pipeline &p);  ///< float16, too

}  // namespace cryolite::compiler
