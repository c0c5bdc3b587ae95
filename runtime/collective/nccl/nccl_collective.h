#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/collective/processes.h"

namespace cryolite {

/// The ends of this process's workers, each with a GPU of its own, by worker: their streams add and send by NCCL.
/// `beside`: the ends of the same workers in the host's memory, which go on to look after them and to add numbers of
/// the host. `enter` makes the GPU of a worker, by its place in `beside`, that of the calling thread. Waits until all
/// workers of all `processes` are there. Errors: no library, as `check_nccl` has it; LostWorker; the library's words.
std::vector<std::unique_ptr<Collective>> nccl_collectives(std::vector<std::unique_ptr<HostCollective>> beside,
                                                          Processes &processes, const std::function<void(int)> &enter);

/// Errors: there is no NCCL that could be used, with what helps.
void check_nccl();

}  // namespace cryolite
