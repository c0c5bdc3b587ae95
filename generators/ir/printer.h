#pragma once

#include "generators/ir/program.h"

namespace cryolite::ir {

/// The program as text, a line an operation: its kind, what it reads -> what it writes, where it is computed and why.
/// Once there are kernels, operations of one kernel stand together, its anchor with a star.
std::string text_of(const Program &p);
/// Its requests alone, each with where it was written and what came of it.
std::string lines_of(const Program &p);

}  // namespace cryolite::ir
