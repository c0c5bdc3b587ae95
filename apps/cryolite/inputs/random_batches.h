#pragma once
// Random micro-batches, for timing: the values do not matter, but every run has the same.

#include <memory>

#include "bundle/plan.h"
#include "runtime/data/loader.h"

namespace cryolite {

/// Micro-batches with the extents that the plan reads, for all of its workers. Tokens and labels are below its number
/// of classes.
std::unique_ptr<BatchSource> random_batches(const Plan &plan, uint64_t seed);

}  // namespace cryolite
