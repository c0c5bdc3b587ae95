#pragma once
// How much of each Func a kernel computes, and how often it reads an element of it.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedules/group.h"

namespace cryolite {

/// The extents of a Func that are computed, or the elements of an output that are asked for.
using Extents = std::vector<int>;

int64_t volume(const Extents &extents);

/// For each Func of a kernel, the extents that the last `asked` elements of each dimension of `out` need, or, of the
/// other outputs, all of them. None: some extent is not known before the kernel runs.
std::optional<std::map<std::string, Extents>> needed(const Group &g, const Extents &asked);

}  // namespace cryolite
