#pragma once
// Which kernels other implementations than Halide's may compute, or have to.

#include "dialects/table.h"
#include "generators/passes/pass.h"

namespace cryolite::compiler {

/// The dialect that a line or the command asks for the product of a kernel, and which of the two asks for it.
struct AskedDialect {
    std::string dialect, why;
};
AskedDialect asked_dialect(const StepProgram &p, const StepOptions &options, const ir::Kernel &k);

/// The product of a kernel and what else its loops hold; its arguments are indices of values. Throws, with the reason,
/// where a `Product` cannot describe it.
Product product_of(const StepProgram &p, const ir::Kernel &k);

/// Why a dialect cannot compute a kernel; empty: it can.
std::string why_not(const StepProgram &p, const ir::Kernel &k, const std::string &dialect);

}  // namespace cryolite::compiler
