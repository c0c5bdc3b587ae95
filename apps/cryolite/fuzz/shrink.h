#pragma once
// From a case that fails to a smaller one that fails too.

#include <functional>

#include "apps/cryolite/fuzz/fuzz_case.h"

namespace cryolite {

/// Leaves out what the failure does not need: flags, layers, lines, sizes, then numbers, until nothing more can go or
/// `fails` has been asked `tries` times. `fails` says whether a case still fails; the given one does.
FuzzCase shrink(FuzzCase c, const std::function<bool(const FuzzCase &)> &fails, int tries);

}  // namespace cryolite
