#pragma once

#include "generators/ir/program.h"

namespace cryolite::ir {

/// The program as text, a line for each operation: its kind, what it reads -> what it writes, where it is computed and
/// why. Once there are kernels, the operations of a kernel stand together, and its anchor has a star.
std::string text_of(const Program &p);
/// Only the schedule's requests, each with its source and its verdict.
std::string lines_of(const Program &p);

}  // namespace cryolite::ir
