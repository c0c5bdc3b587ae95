#pragma once
// The functions of Halide's CUDA runtime that kernels call, in place of Halide's own. Launches go to our stream, and a
// kernel's temporary memory is kept, so that a graph of launches may refer to it. docs/decisions.md says why.

#include <HalideRuntimeCuda.h>

#include <list>
#include <map>
#include <string>
#include <vector>

#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/launches.h"

namespace cryolite {

/// The user context of kernels. On an error, functions return a code and pass the message to `note_error`.
class KernelLauncher : public TaskScheduler {
public:
    /// `interface`: by which Halide's generic functions know the device.
    KernelLauncher(const CudaApi &api, CudaApi::Object stream, const halide_device_interface_t *interface)
        : TaskScheduler(1), api_(api), stream_(stream), interface_(interface) {}
    ~KernelLauncher();
    KernelLauncher(const KernelLauncher &) = delete;

    const halide_device_interface_t *interface() const { return interface_; }
    /// The interface that an open bundle has brought. Errors: no bundle is open.
    static const halide_device_interface_t *interface_of_bundles();
    /// The most registers of a thread, where the kernel's largest block has this many threads.
    static int most_registers(int threads);
    /// A kernel with this PTX begins; the PTX is loaded at its first launch.
    int begin(const char *ptx);
    /// While it lives, a kernel that is called launches nothing. What it would launch, and in which blocks, is
    /// recorded, and its temporary memory is allocated.
    class Rehearsal {
    public:
        /// `launches`, where given, gets each launch.
        explicit Rehearsal(KernelLauncher &launcher, std::vector<KernelLaunch> *launches = nullptr)
            : launcher_(launcher) {
            launcher_.rehearses_ = true, launcher_.launches_ = launches;
        }
        ~Rehearsal() { launcher_.rehearses_ = false, launcher_.launches_ = nullptr; }
        Rehearsal(const Rehearsal &) = delete;

    private:
        KernelLauncher &launcher_;
    };
    /// Loads the code that the kernel called last launches.
    int load();
    struct Size {
        int x, y, z;
    };
    int launch(const char *entry, const Size &blocks, const Size &threads, int shared_bytes, size_t sizes[],
               void *arguments[], const int8_t is_buffer[]);
    /// Memory for a kernel's temporary: a free block, or a new one. `give` makes it free again; it stays allocated.
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
        int threads = 0, loaded_for = 0;                   ///< of its largest block: known now, and when it was loaded
        std::map<std::string, CudaApi::Object> functions;  ///< by entry; null: not looked up
    };
    const CudaApi &api_;
    const CudaApi::Object stream_;
    const halide_device_interface_t *const interface_;
    std::map<std::string, Module> modules_;               ///< by PTX
    std::pair<const std::string, Module> *of_ = nullptr;  ///< that of the kernel that runs
    std::list<CudaApi::Object> replaced_;                 ///< modules that graphs may still use
    std::list<Block> blocks_;
    bool rehearses_ = false;
    std::vector<KernelLaunch> *launches_ = nullptr;

    int failed(CudaApi::Code code, const std::string &what);
    int load(std::pair<const std::string, Module> &m);
    int find(Module &m, const std::string &entry);
};

}  // namespace cryolite
