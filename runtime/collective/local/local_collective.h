#pragma once

#include <memory>

#include "runtime/collective/collective.h"

namespace cryolite {

/// The collective's ends for workers that are threads of one process, by worker. Results are in memory that all share,
/// and a sum reads the shares in place. The state of an operation is counters that only grow: no lock, no barrier.
/// `lost` is called on the watch's thread when a worker has given no sign of life for `patience` seconds.
std::vector<std::unique_ptr<HostCollective>> local_collectives(int workers, double patience = default_patience,
                                                               std::function<void()> lost = {});

}  // namespace cryolite
