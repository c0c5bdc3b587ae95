#pragma once
// Copies between the host and a GPU for which nobody waits. An upload goes through pinned memory to a place on the GPU,
// on a stream of its own, so that a batch arrives while the step before it still computes. The compute stream then
// copies it from that place, in the order of its calls.

#include <cstdint>
#include <list>

#include "runtime/device/cuda/host_wait.h"

namespace cryolite {

class CudaStaging {
public:
    CudaStaging(const CudaApi &api, CudaApi::Object compute, HostWait &wait);
    ~CudaStaging();
    CudaStaging(const CudaStaging &) = delete;

    /// False: it is too large to stage, and nothing was done. `always`: false only where the GPU has no memory left.
    bool upload(CudaApi::Address to, const void *from, size_t bytes, bool always = false);
    /// `to` is filled by `await` of a later mark, or by `all_done`. False: as above.
    bool download(void *to, CudaApi::Address from, size_t bytes);
    /// A point after all that was started so far on the compute stream.
    uint64_t mark();
    /// Waits for what was started before the mark, where it is not done yet, and delivers what was downloaded.
    void await(uint64_t mark);
    /// Called when the compute stream has nothing left to do: delivers all downloads.
    void all_done();
    /// Drops downloads that are not delivered yet.
    void forget();
    /// How often `await` has waited.
    uint64_t waits() const { return waits_; }

private:
    struct Place {
        void *pinned = nullptr;
        CudaApi::Address on_device = 0;  ///< 0: of a download
        CudaApi::Object copied = nullptr, done = nullptr;
        size_t bytes = 0;
        bool upload = true;
        void *to = nullptr;  ///< of a download that is not delivered
        size_t wanted = 0;   ///< bytes of it
        uint64_t mark = 0;   ///< of a download: the first mark after it
    };
    struct Mark {
        uint64_t number;
        CudaApi::Object event;
    };
    const CudaApi &api_;
    const CudaApi::Object compute_;
    HostWait &wait_;
    CudaApi::Object copies_ = nullptr;
    std::list<Place> places_;
    std::list<Mark> marks_;              ///< that were not awaited, the oldest first
    std::list<CudaApi::Object> events_;  ///< free ones
    size_t held_ = 0;                    ///< bytes of all places
    uint64_t marked_ = 0, waits_ = 0;

    void drop(const Place &p);
    Place *take(size_t bytes, bool upload, bool always = false);
    bool is_free(const Place &p) const;
    CudaApi::Object new_event();
    void deliver(uint64_t mark);
};

}  // namespace cryolite
