#pragma once
// Names the layer whose gradient a compiler process was making when it died, for the error message.

#include <string>

#include "generators/codegen/child.h"
#include "generators/ir/program.h"

namespace cryolite::compiler {

/// What to add to the error of a process that died or exceeded its time limit; empty where it ended by itself or made
/// no gradient. It names the layer, because the kernel is named after the gradient's value: another layer's output.
std::string blame(const ChildResult &r, const ir::Program &p, const ir::Kernel &k);
/// The same for the gradient of a layer by itself.
std::string blame(const ChildResult &r, const std::string &path, const std::string &kind);

}  // namespace cryolite::compiler
