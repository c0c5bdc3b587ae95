#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The host's cores: a scheduler of `threads` OpenMP threads; 0: one for each core that this process may use. `cores`:
/// the core to which each thread is pinned; empty: they are not pinned.
std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores = {});

/// Cores that this process may run on, by the system's numbers.
std::vector<int> core_numbers();
int usable_cores();

/// The order of iterations in the parallel loops of kernels that are called without a device's context; these run on
/// the calling thread. Tests vary it to show that no iteration depends on another. `strided`: for most iterations
/// either both neighbours are done before it, or neither is.
enum class SerialOrder { forwards, backwards, strided };
void order_serial_loops(SerialOrder order);

}  // namespace cryolite
