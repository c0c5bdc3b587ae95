#pragma once
// The compute stream of a GPU as libraries use it: it times what they put there, and holds what they keep.

#include <array>
#include <map>

#include "dialects/gpu_stream.h"
#include "runtime/device/cuda/host_wait.h"

namespace cryolite {

class TimedStream : public GpuStream {
public:
    /// `enter` makes the GPU's context current on the calling thread.
    TimedStream(const CudaApi &api, CudaApi::Object stream, HostWait &wait, std::string gpu,
                std::function<void()> enter)
        : api_(api), stream_(stream), wait_(wait), gpu_(std::move(gpu)), enter_(std::move(enter)) {
        api.check(api.driver_version(&driver_), "asking for the driver's version");
    }
    ~TimedStream() override { forget(); }
    TimedStream(const TimedStream &) = delete;

    int driver() const override { return driver_; }
    void *stream() override { return enter_(), stream_; }
    std::string copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                          size_t rows) override;
    double seconds(const std::function<int()> &start) override;
    std::shared_ptr<void> &kept(const std::string &library) override { return kept_[library]; }
    std::string find(const std::string &library, const std::string &operation) override;
    void keep(const std::string &library, const std::string &operation, const std::string &algorithm,
              double seconds) override;
    /// Releases what is kept, while the context still exists.
    void forget();

    std::shared_ptr<AlgorithmRecords> records;  ///< null: algorithms are remembered in this process only

private:
    const CudaApi &api_;
    const CudaApi::Object stream_;
    HostWait &wait_;
    const std::string gpu_;
    const std::function<void()> enter_;
    int driver_ = 0;
    std::array<CudaApi::Object, 2> events_{};  ///< before and after
    std::map<std::string, std::shared_ptr<void>> kept_;
    std::map<std::string, std::string> algorithms_;  ///< by library and operation
};

}  // namespace cryolite
