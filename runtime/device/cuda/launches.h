#pragma once
// What kernels launch on a GPU, without a GPU: a kernel is called as in a step, and its calls of Halide's runtime are
// recorded.

#include <HalideRuntime.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace cryolite {

struct KernelLaunch {
    std::string entry{};
    std::array<int, 3> blocks{}, threads{};
    int shared_bytes = 0;                  ///< of a block
    std::map<int, int> loads{}, stores{};  ///< instructions of its PTX on global memory, by the bytes of a thread
    std::string ptx{};

    int threads_of_block() const { return threads[0] * threads[1] * threads[2]; }
    int64_t all_blocks() const { return int64_t(blocks[0]) * blocks[1] * blocks[2]; }
};

/// An array that a kernel is called with.
struct LaunchArgument {
    halide_type_t type;
    std::vector<int> extents;
};

/// The launches of a kernel that was compiled for cuda, in their order. Errors: the kernel's own.
std::vector<KernelLaunch> launches_of(int (*kernel)(void **), const std::vector<LaunchArgument> &arguments);

/// How many blocks a multiprocessor runs at once, and which resource limits them.
struct Occupancy {
    int blocks = 0, warps = 0, most_warps = 0;
    std::string limit;  ///< "warps", "blocks", "registers", "shared memory"
    double share() const { return double(warps) / most_warps; }
};

/// The occupancy with this many registers a thread, on a GPU of this compute capability (80, 86, 90).
Occupancy occupancy(const KernelLaunch &launch, int registers, int capability);

}  // namespace cryolite
