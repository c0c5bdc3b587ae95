#pragma once
// How the host waits for a GPU: as the driver does, or, where the GPU may wait for other workers, looking after them.

#include <atomic>
#include <functional>
#include <utility>

#include "runtime/device/cuda/cuda_api.h"

namespace cryolite {

class HostWait {
public:
    explicit HostWait(const CudaApi &api) : api_(api) {}
    ~HostWait() {
        if (end_) api_.destroy_event(end_);
    }
    HostWait(const HostWait &) = delete;

    std::function<void()> watch;  ///< as Device::use_watch has it

    /// Until the event is reached. Throws what the watch throws.
    CudaApi::Code event(CudaApi::Object event);
    /// Until nothing is left to do in the stream.
    CudaApi::Code stream(CudaApi::Object stream);
    /// As `stream`, of one whose memory is given back: whatever the watch says is known already.
    void settle(CudaApi::Object stream);

    /// How often `stream` was asked for.
    uint64_t waits() const { return waits_; }
    /// The host does something for the GPU, or waits for it.
    void sign() { signs_.fetch_add(1, std::memory_order_relaxed); }
    /// Whether it has since this was asked last. By one thread.
    bool works() {
        const uint64_t now = signs_.load(std::memory_order_relaxed);
        return std::exchange(seen_, now) != now;
    }

private:
    const CudaApi &api_;
    CudaApi::Object end_ = nullptr;
    uint64_t waits_ = 0;
    std::atomic<uint64_t> signs_{0};
    uint64_t seen_ = 0;
};

}  // namespace cryolite
