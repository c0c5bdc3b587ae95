#pragma once

#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/host_wait.h"
#include "runtime/io/error.h"

namespace cryolite {

/// A GPU with its primary context, which other libraries of this process use, too.
class Gpu {
public:
    Gpu(const CudaApi &api, const GpuChoice &choice) : api_(api) {
        const CudaApi::Code begun = api.init(0);
        int count = 0;
        if (begun == CudaApi::no_device || (begun == 0 && api.device_count(&count) == 0 && count == 0))
            fail("--device cuda: CUDA's driver sees no GPU: nvidia-smi lists those of this machine, "
                 "CUDA_VISIBLE_DEVICES may hide them; or use --device cpu");
        api.check(begun, "starting CUDA");
        if (count == 0) api.check(api.device_count(&count), "counting GPUs");
        const int ordinal = choice.seen_alone && count == 1 ? 0 : choice.ordinal;
        if (ordinal >= count)
            fail("--device cuda: worker {} needs a GPU of its own, and CUDA's driver shows {} here: use fewer workers "
                 "(--workers, mpirun -n), or let CUDA_VISIBLE_DEVICES show more",
                 ordinal, count);
        api.check(api.get_device(&device_, ordinal), "asking for the GPU");
        char text[256] = "";
        api.check(api.device_name(text, sizeof text - 1, device_), "asking for the GPU's name");
        name = text;
        capability = 10 * attribute(CudaApi::capability_major) + attribute(CudaApi::capability_minor);
        api.check(api.retain_context(&context_, device_), "making the context");
        if (const CudaApi::Code code = enter()) {
            api.release_context(device_);
            api.check(code, "entering the context");
        }
    }
    ~Gpu() { api_.release_context(device_); }
    Gpu(const Gpu &) = delete;

    /// Makes the context current on the calling thread; each thread does so before it calls the driver.
    CudaApi::Code enter() const { return api_.set_current(context_); }
    void use() const { api_.check(enter(), "entering the context"); }

    /// The driver knows clocks in kHz, and the width of the memory's bus in bits.
    Hardware hardware() const {
        Hardware h{.name = name, .processor = false};
        const double lanes = capability == 80 ? 64 : 128;  // of a multiprocessor, each a multiply-add in a cycle
        h.peak = 2e-6 * lanes * attribute(CudaApi::multiprocessors) * attribute(CudaApi::clock);
        h.bandwidth = 2e-6 * attribute(CudaApi::memory_clock) * attribute(CudaApi::memory_bus) / 8;  // twice a cycle
        return h;
    }

    std::string name;
    int capability = 0;

private:
    const CudaApi &api_;
    int device_ = 0;
    int attribute(int which) const {
        int value = 0;
        api_.check(api_.device_attribute(&value, which, device_), "asking for an attribute of the GPU");
        return value;
    }
    CudaApi::Object context_ = nullptr;
};

class Stream {
public:
    explicit Stream(const CudaApi &api) : api_(api) {
        api.check(api.create_stream(&stream, CudaApi::stream_apart), "creating a stream");
    }
    ~Stream() { api_.wait_for_stream(stream), api_.destroy_stream(stream); }
    Stream(const Stream &) = delete;
    CudaApi::Object stream = nullptr;

private:
    const CudaApi &api_;
};

}  // namespace cryolite
