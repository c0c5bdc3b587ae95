#pragma once
// Finds out from the Funcs of a kernel whether it is a sum of products, or a sum over rows.

#include "schedules/group.h"

namespace cryolite {

/// The reads of `f` in all definitions of `reader`.
std::vector<const Halide::Internal::Call *> reads_of(const Halide::Func &reader, const Halide::Func &f);
/// Its reads in one definition of another Func.
std::vector<const Halide::Internal::Call *> reads_of(const Halide::Internal::Definition &reader, const Halide::Func &f);

/// Whether the anchor is a kernel's only sum, f(i, j, ...) += a(..) * b(..), over reduction variables that are not
/// among its own indices, and all indices of the factors are single variables. The kernel does not update in place.
bool is_contraction(const Group &g);

/// Whether the anchor is a kernel's only sum, and adds up the rows of an array: f(i) += a(i, ..).
bool adds_rows(const Group &g);

/// Whether a Func reads the anchor at other indices than its own, as where a gradient is stored transposed.
bool shown_elsewhere(const Group &g);

}  // namespace cryolite
