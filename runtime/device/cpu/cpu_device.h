#pragma once

#include "runtime/device/device.h"

namespace cryolite {

/// The host's cores: a scheduler of `threads` OpenMP threads; 0: all that this process may use. `cores`: where each
/// thread stays, empty: where the system puts it.
std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores = {});

/// Cores that this process may run on, by the system's numbers.
std::vector<int> core_numbers();
int usable_cores();

/// Whether the parallel loops of a kernel that is called without a device's context, which run on the calling thread,
/// go from the last iteration to the first: to see that none depends on another.
void run_serial_loops_backwards(bool backwards);

}  // namespace cryolite
