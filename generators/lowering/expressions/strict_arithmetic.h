#pragma once

#include <Halide.h>

namespace cryolite::compiler {

/// The same expression with sums and products that no compiler contracts or reorders. Quotients and roots are not made
/// strict, because exact ones take longer than streaming a parameter does.
Halide::Expr strict(const Halide::Expr &e);

}  // namespace cryolite::compiler
