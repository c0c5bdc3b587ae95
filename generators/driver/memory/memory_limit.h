#pragma once

#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// Refuses, before anything is compiled, a step that cannot fit into `memory` bytes whatever its schedule (parameters,
/// optimizer state, batch and largest activation), and an array too large for the 32-bit indices of kernels. `names`:
/// the flags that decide the model's size, for the message.
void check_size(const StepProgram &p, const std::vector<std::string> &names, double memory);

/// Bytes of memory that this machine has, or that this process may use.
double machine_memory();
/// "40.0 MB", in powers of ten.
std::string bytes_text(double bytes);

}  // namespace cryolite::compiler
