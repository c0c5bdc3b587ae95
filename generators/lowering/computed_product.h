#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Whether a layer of one input computes y = W x + b with its parameters, and the gradients that follow, whatever it
/// says of itself and however it is written. Builds Funcs.
ComputedProduct computed_product(Layer &layer, const Shape &input);

}  // namespace cryolite::compiler
