#include "runtime/device/cuda/host_wait.h"

#include "runtime/io/error.h"
#include "runtime/system/threads.h"

namespace cryolite {

CudaApi::Code HostWait::event(CudaApi::Object event) {
    if (!watch) return api_.wait_for_event(event);
    for (Pauses pauses;; pauses.next()) {
        const CudaApi::Code code = api_.is_done(event);
        if (code != CudaApi::not_ready) return code;
        sign();
        watch();
    }
}

CudaApi::Code HostWait::stream(CudaApi::Object stream) {
    waits_++;
    if (!watch) return api_.wait_for_stream(stream);
    CudaApi::Code code = end_ ? 0 : api_.create_event(&end_, CudaApi::event_without_time);
    if (code == 0) code = api_.record(end_, stream);
    return code ? code : event(end_);
}

void HostWait::settle(CudaApi::Object stream) {
    try {
        this->stream(stream);
    } catch (const Error &) {
    }
}

}  // namespace cryolite
