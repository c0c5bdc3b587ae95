#pragma once

#include "dsl/model.h"

namespace cryolite::compiler {

/// Compares the gradients of every distinct layer of the model, in float64, with central differences along
/// random directions; prints a line a layer. Returns 0 where all agree, 1 else.
int check_gradients(Model &model);

}  // namespace cryolite::compiler
