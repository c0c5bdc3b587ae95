#pragma once
// Which arrays of a step are bf16: from the model's format and the cast table's lines of the layers around each.

#include "generators/step.h"

namespace cryolite::compiler {

/// A value is bf16 where the layer that makes it may store it so and all that read it read bf16. Results of the model
/// are fp32.
Halide::Type value_format(const StepProgram &p, int value);

/// An adjoint is bf16 where its value may be, and has one reader: sums of several are fp32.
Halide::Type adjoint_format(const StepProgram &p, int value);

/// Whether a weight is kept as a half, which products read, and a remainder.
bool in_halves(const StepProgram &p, const Parameter &w);

}  // namespace cryolite::compiler
