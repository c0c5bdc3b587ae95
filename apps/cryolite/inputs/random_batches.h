#pragma once
// Micro-batches at random, for timing: the values do not matter, only that every run has the same.

#include <memory>

#include "bundle/plan.h"
#include "runtime/data/loader.h"

namespace cryolite {

/// Of the extents that the plan reads, for all of its workers, below its number of classes.
std::unique_ptr<BatchSource> random_batches(const Plan &plan, uint64_t seed);

}  // namespace cryolite
