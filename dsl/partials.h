#pragma once
// Reverse mode within one expression.

#include <Halide.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cryolite {

/// Why a gradient cannot be derived, and what to write instead. `Layer::derive` adds the layer's name.
struct Underivable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Whether a gradient flows through this read of a Func.
using Active = std::function<bool(const Halide::Internal::Call &read)>;

/// What an expression adds to the adjoint of a Func at the place of one read.
struct Partial {
    Halide::Expr read;  ///< the call
    Halide::Expr adjoint;
    const Halide::Internal::Call &call() const { return *read.as<Halide::Internal::Call>(); }
};

/// The adjoints of all active reads in `value`, from the adjoint of `value`. Step functions (integers, floor) have
/// slope 0. Of two equal values, min and max take the first. Errors: Underivable where an operation on an active read
/// has no rule.
std::vector<Partial> partials(const Halide::Expr &value, const Halide::Expr &adjoint, const Active &active);

/// Whether an expression has a read for which `of` holds, as a value and not inside an index.
bool reads(const Halide::Expr &value, const Active &of);

/// An expression or a name as messages show it: without Halide's suffixes and types. Long expressions are cut off.
std::string shown(const Halide::Expr &e);
std::string shown(const std::string &text);

}  // namespace cryolite
