#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/collective/processes.h"

namespace cryolite {

/// The collective's ends of this process's workers, each with its own GPU, whose streams reduce and send through NCCL.
/// `beside`: the same workers' ends for host memory, which watch the workers and gather numbers of the host. `enter(w)`
/// makes the GPU of worker beside[w] current on the calling thread. Waits until all workers of all `processes` have
/// joined. Errors: as `check_nccl`; LostWorker; the library's message.
std::vector<std::unique_ptr<Collective>> nccl_collectives(std::vector<std::unique_ptr<HostCollective>> beside,
                                                          Processes &processes, const std::function<void(int)> &enter);

/// Errors: there is no usable NCCL; the message says what to install.
void check_nccl();

}  // namespace cryolite
