#pragma once
// How the host waits for a GPU: in the driver, or, where the GPU may wait for other workers, by polling.

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

    std::function<void()> watch;  ///< as in Device::use_watch

    /// Waits until the event is reached. Throws what the watch throws.
    CudaApi::Code event(CudaApi::Object event);
    /// Waits until the stream has nothing left to do. Throws what the watch throws.
    CudaApi::Code stream(CudaApi::Object stream);
    /// As `stream`, before memory is released: drops what the watch throws, which is known already.
    void settle(CudaApi::Object stream);

    /// How often `stream` was called.
    uint64_t waits() const { return waits_; }
    /// A sign of life: the host does something for the GPU, or waits for it.
    void sign() { signs_.fetch_add(1, std::memory_order_relaxed); }
    /// Whether there was a sign since the last call. Asked by one thread.
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
