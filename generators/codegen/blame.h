#pragma once
// Whose gradient a compiler process was making when it died, for its error.

#include <string>

#include "generators/codegen/child.h"
#include "generators/ir/program.h"

namespace cryolite::compiler {

/// What to add to the error of a process that died or did not end; nothing where it ended by itself or made no
/// gradient. The kernel's own name is that of what the gradient belongs to, which is another layer's output.
std::string blame(const ChildResult &r, const ir::Program &p, const ir::Kernel &k);
/// The same for the gradient of a layer by itself.
std::string blame(const ChildResult &r, const std::string &path, const std::string &kind);

}  // namespace cryolite::compiler
