#pragma once
// How much of each Func a kernel computes.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedules/group.h"

namespace cryolite {

/// The extents of a Func that are computed, or the elements of an output that are asked for.
using Extents = std::vector<int>;

int64_t volume(const Extents &extents);

/// Variables of a definition and the constants between which they lie, where `region` of `f` is computed.
using Domain = std::map<std::string, Halide::Internal::Interval>;
Domain domain_of(const Halide::Internal::Function &f, const Halide::Internal::Definition &d,
                 const Halide::Internal::Box &region);
Halide::Internal::Scope<Halide::Internal::Interval> scope_of(const Domain &domain);
/// A definition as a statement, of which Halide finds out what it reads and writes.
Halide::Internal::Stmt statement_of(const Halide::Internal::Function &f, const Halide::Internal::Definition &d);

/// For each Func of a kernel, the extents that the last `asked` elements of each dimension of `out` need, or, of the
/// other outputs, all of them. None: some extent is not known before the kernel runs.
std::optional<std::map<std::string, Extents>> needed(const Group &g, const Extents &asked);

}  // namespace cryolite
