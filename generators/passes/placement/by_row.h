#pragma once
// An algorithm of one row, made one of all rows.

#include <Halide.h>

#include <string>

namespace cryolite::compiler {

/// `f` reads a row by the number of a Param of this name. The same Func with the number as a last dimension, called
/// `row`: by_row(f)(args..., row). Whatever of what it calls depends on the number is treated in the same way. Errors:
/// an extern stage, or a reduction whose domain depends on the row.
Halide::Func by_row(const Halide::Func &f, const std::string &parameter, const Halide::Var &row);

}  // namespace cryolite::compiler
