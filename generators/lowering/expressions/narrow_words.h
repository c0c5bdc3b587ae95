#pragma once

#include <Halide.h>

namespace cryolite::compiler {

/// A lowering pass for devices: arrays of 16 bits are words there, and conversions are written out in integers.
/// Halide's code for GPUs has no bfloat16, and OpenCL has float16 only where an extension of it is.
void bfloat16_as_words(Halide::Pipeline &p);
void narrow_as_words(Halide::Pipeline &p);  ///< float16, too

}  // namespace cryolite::compiler
