#pragma once
// Which kernels other implementations than Halide's may compute, or have to.

#include "dialects/table.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// What a line or the command asks for the product of a kernel, and which of them.
struct AskedDialect {
    std::string dialect, why;
};
AskedDialect asked_dialect(const StepProgram &p, const StepOptions &options, const ir::Kernel &k);

/// The product of a kernel and what else its loops hold; arguments are numbers of values. Throws, with the reason,
/// where it is none that a dialect has words for.
Product product_of(const StepProgram &p, const ir::Kernel &k);

/// Why a dialect cannot compute a kernel; empty: it can.
std::string why_not(const StepProgram &p, const ir::Kernel &k, const std::string &dialect);

}  // namespace cryolite::compiler
