#pragma once

#include <memory>

#include "runtime/collective/collective.h"
#include "runtime/collective/mpi/ranks.h"

namespace cryolite {

constexpr size_t largest_message = size_t(1) << 30;  // MPI counts are ints

/// The collective's end of a rank, which is one worker. Shares and results are separate messages between ranks, sent in
/// any order and while kernels run. Owners add the shares in a fixed order, which MPI's own reductions do not promise.
std::unique_ptr<HostCollective> mpi_collective(Ranks &ranks);

}  // namespace cryolite
