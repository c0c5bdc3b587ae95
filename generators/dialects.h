#pragma once
// Which kernels other implementations than Halide's may compute, or have to.

#include "dialects/table.h"
#include "generators/kernel_builder.h"

namespace cryolite::compiler {

/// What a line or the command asks for the product of a kernel, and which of them.
struct Asked {
    std::string dialect, why;
};
Asked asked_dialect(const StepProgram &p, const StepOptions &options, const Kernel &k);

/// The product of a kernel and what else its loops hold; arguments are numbers of buffers. Throws, with the reason, where
/// it is none that a dialect has words for.
Product product_of(const StepProgram &p, const Kernel &k);
/// The same, its arguments as places in the kernel's.
Product with_arguments(Product product, const std::vector<KernelArgument> &arguments);

/// Why a dialect cannot compute a kernel; empty: it can.
std::string why_not(const StepProgram &p, const Kernel &k, const std::string &dialect);

/// Decides for every kernel, or refuses a line of the step schedule.
void choose_dialects(StepProgram &p, const StepOptions &options);

}  // namespace cryolite::compiler
