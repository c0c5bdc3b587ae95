#pragma once
// What kernels call of Halide's runtime for CUDA, in place of Halide's own: launches go to a stream of ours, and memory
// that a kernel takes for itself stays, so that a graph of launches may name it. docs/decisions.md says why.

#include <HalideRuntimeCuda.h>

#include <list>
#include <map>
#include <string>

#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/device/cuda/cuda_api.h"

namespace cryolite {

/// The user context of kernels. Its errors are those of the scheduler: `note_error` has words, functions return a code.
class KernelLauncher : public TaskScheduler {
public:
    /// `interface`: what Halide's generic functions know the device by.
    KernelLauncher(const CudaApi &api, CudaApi::Object stream, const halide_device_interface_t *interface)
        : TaskScheduler(1), api_(api), stream_(stream), interface_(interface) {}
    ~KernelLauncher();
    KernelLauncher(const KernelLauncher &) = delete;

    const halide_device_interface_t *interface() const { return interface_; }
    /// The PTX of the kernel that begins; it is loaded the first time.
    int begin(const char *ptx);
    struct Size {
        int x, y, z;
    };
    int launch(const char *entry, const Size &blocks, const Size &threads, int shared_bytes, size_t sizes[],
               void *arguments[], const int8_t is_buffer[]);
    /// Memory for a temporary of a kernel: what is free, or more; it is given back, never freed before the end.
    int take(halide_buffer_t &temporary);
    void give(halide_buffer_t &temporary);

private:
    struct Block {
        CudaApi::Address address;
        size_t bytes;
        bool used;
    };
    const CudaApi &api_;
    const CudaApi::Object stream_;
    const halide_device_interface_t *const interface_;
    std::map<std::string, CudaApi::Object> modules_;  ///< by PTX
    CudaApi::Object module_ = nullptr;                ///< of the kernel that runs
    std::list<Block> blocks_;

    int failed(CudaApi::Code code, const std::string &what);
};

}  // namespace cryolite
