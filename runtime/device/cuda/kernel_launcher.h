#pragma once
// What kernels call of Halide's runtime for CUDA, in place of Halide's own: launches go to a stream of ours, and memory
// that a kernel takes for itself stays, so that a graph of launches may name it. docs/decisions.md says why.

#include <HalideRuntimeCuda.h>

#include <list>
#include <map>
#include <string>
#include <vector>

#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/launches.h"

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
    /// Of a bundle that is open. Errors: none is.
    static const halide_device_interface_t *interface_of_bundles();
    /// What a thread is given at most, where the largest block of a kernel has so many threads.
    static int most_registers(int threads);
    /// The PTX of the kernel that begins; it is loaded at its first launch.
    int begin(const char *ptx);
    /// While it lives a kernel launches nothing: it is found out what it launches, and in which blocks; the memory that
    /// it takes for itself is there then.
    class Rehearsal {
    public:
        /// `launches`, where given, gets what is launched.
        explicit Rehearsal(KernelLauncher &launcher, std::vector<KernelLaunch> *launches = nullptr)
            : launcher_(launcher) {
            launcher_.rehearses_ = true, launcher_.launches_ = launches;
        }
        ~Rehearsal() { launcher_.rehearses_ = false, launcher_.launches_ = nullptr; }
        Rehearsal(const Rehearsal &) = delete;

    private:
        KernelLauncher &launcher_;
    };
    /// Loads what the kernel that has run last launches.
    int load();
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
    struct Module {
        CudaApi::Object module = nullptr;                  ///< null: not loaded
        int threads = 0, loaded_for = 0;                   ///< of its largest block: known, and when it was loaded
        std::map<std::string, CudaApi::Object> functions;  ///< by entry; null: not looked for
    };
    const CudaApi &api_;
    const CudaApi::Object stream_;
    const halide_device_interface_t *const interface_;
    std::map<std::string, Module> modules_;               ///< by PTX
    std::pair<const std::string, Module> *of_ = nullptr;  ///< the one of the kernel that runs
    std::list<CudaApi::Object> replaced_;                 ///< modules that graphs may still name
    std::list<Block> blocks_;
    bool rehearses_ = false;
    std::vector<KernelLaunch> *launches_ = nullptr;

    int failed(CudaApi::Code code, const std::string &what);
    int load(std::pair<const std::string, Module> &m);
    int find(Module &m, const std::string &entry);
};

}  // namespace cryolite
