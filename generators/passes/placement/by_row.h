#pragma once
// Makes an algorithm for all rows from an algorithm for one row.

#include <Halide.h>

#include <string>

namespace cryolite::compiler {

/// `f` reads one row, whose number is the Param `parameter`. Returns the same Func with that number as its last
/// dimension, called `row`: by_row(f)(args..., row). Funcs that it calls and that depend on the number are treated in
/// the same way. Errors: an extern stage, or a reduction whose domain depends on the row.
Halide::Func by_row(const Halide::Func &f, const std::string &parameter, const Halide::Var &row);

}  // namespace cryolite::compiler
