#pragma once
// Whether an algorithm stays inside the arrays that it is given. Compiled kernels check nothing: what is not refused
// here reads whatever lies beside the array.

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

/// The first place outside an array that computing `outputs`, as yet without a schedule, touches; empty: none. What
/// depends on data and has no bound is trusted. Builds Funcs: in a child.
std::string touched_outside(const std::vector<KnownArray> &outputs, const std::vector<KnownArray> &inputs);

}  // namespace cryolite::compiler
