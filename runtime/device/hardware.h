#pragma once

#include <string>

namespace cryolite {

/// What a device is made of.
struct Hardware {
    std::string name;       ///< "NVIDIA H100 80GB HBM3"
    bool processor = true;  ///< whether it is this machine's processor
    double peak = 0;        ///< of float32 without tensor cores, in 1e9 operations per second; 0: not known
    double bandwidth = 0;   ///< of its memory, in 1e9 bytes per second; 0: not known
};

/// The hardware of the first device of this name: cpu, opencl or cuda. Starts no kernel, and needs no bundle. Errors:
/// there is none; the message says what to install.
Hardware hardware_of(const std::string &device);

}  // namespace cryolite
