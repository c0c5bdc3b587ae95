#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The host's cores: a scheduler of `threads` OpenMP threads; 0: all that this process may use. `cores`: where each
/// thread stays, empty: where the system puts it.
std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores = {});

/// Cores that this process may run on, by the system's numbers.
std::vector<int> core_numbers();
int usable_cores();

/// In which order the parallel loops of a kernel that is called without a device's context, which run on the calling
/// thread, take their iterations: to see that none depends on another. `strided`: those before and after an iteration
/// are both done, or neither, for most.
enum class SerialOrder { forwards, backwards, strided };
void order_serial_loops(SerialOrder order);

}  // namespace cryolite
