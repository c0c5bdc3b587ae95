#pragma once

#include <memory>

#include "runtime/collective/collective.h"
#include "runtime/collective/mpi/ranks.h"

namespace cryolite {

constexpr size_t largest_message = size_t(1) << 30;  // counts are ints

/// The end of a rank, which is one worker. Shares and results go from rank to rank by messages of their own, in any
/// order and while kernels run; owners add the shares in the order of the ranks,
/// which no reduction of MPI's own promises.
std::unique_ptr<HostCollective> mpi_collective(Ranks &ranks);

}  // namespace cryolite
