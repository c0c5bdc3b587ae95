#pragma once
// Whether an algorithm stays inside the arrays that it is given. Compiled kernels check nothing: an index that is not
// refused here reads whatever lies beside the array.

#include <Halide.h>

#include <optional>
#include <string>
#include <vector>

namespace cryolite::compiler {

/// An array with known extents, innermost first, and what to call it in a message.
struct KnownArray {
    Halide::Func f;
    std::vector<int> extents;
    std::string name;
};

/// Describes the first access outside an array by the computation of `outputs`, which have no schedule yet; empty:
/// there is none. An index that depends on data and has no bound is trusted. Builds Funcs, so it runs in a child.
std::string touched_outside(const std::vector<KnownArray> &outputs, const std::vector<KnownArray> &inputs);

}  // namespace cryolite::compiler
