#pragma once
// Memory of the host in huge pages.

#include <map>
#include <string>

#include "runtime/device/device.h"

namespace cryolite {

/// Places arrays one after another in blocks of huge pages, so that arrays smaller than such a page are in one, too.
/// Their distances are no powers of two, so equal indices of several arrays fall into different sets of a cache.
class HostMemory {
public:
    HostMemory() = default;
    HostMemory(const HostMemory &) = delete;
    ~HostMemory();

    /// Zeroed, aligned to 64 bytes. Errors: how much was asked for and is not there.
    DeviceMemory allocate(size_t bytes, const std::string &what);
    /// A block is unmapped when the last of its arrays is released.
    void release(DeviceMemory &memory);

private:
    struct Block {
        size_t bytes = 0, used = 0;
        int arrays = 0;  ///< that are not released yet
    };
    std::map<uintptr_t, Block> blocks_;
    uintptr_t newest_ = 0;  ///< the block that small arrays are taken from
    size_t total_ = 0;

    uintptr_t map(size_t bytes);
};

}  // namespace cryolite
