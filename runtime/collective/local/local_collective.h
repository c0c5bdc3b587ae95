#pragma once

#include <memory>

#include "runtime/collective/collective.h"

namespace cryolite {

/// The ends of workers that are threads of one process, by worker. What owners compute is in memory that all of them
/// share; a sum reads the shares where they are. Two counters that only grow stand for each of them: no lock, no
/// barrier. `lost` is called, on a thread of its own, when a worker has given no sign of life for `patience` seconds.
std::vector<std::unique_ptr<HostCollective>> local_collectives(int workers, double patience = default_patience,
                                                               std::function<void()> lost = {});

}  // namespace cryolite
