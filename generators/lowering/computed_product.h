#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Whether a layer of one input computes y = W x + b with its parameters, and the gradients of that, as its Funcs say.
/// What the layer declares does not matter. Builds Funcs.
ComputedProduct computed_product(Layer &layer, const Shape &input);

}  // namespace cryolite::compiler
