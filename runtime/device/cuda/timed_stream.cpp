#include "runtime/device/cuda/timed_stream.h"

#include <limits>

namespace cryolite {

std::string TimedStream::copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                                   size_t rows) {
    enter_();
    const CudaApi::Rows copy{.from = {.memory = reinterpret_cast<CudaApi::Address>(from), .stride = from_stride},
                             .to = {.memory = reinterpret_cast<CudaApi::Address>(to), .stride = to_stride},
                             .bytes = bytes,
                             .rows = rows};
    const CudaApi::Code code = api_.rows_within(&copy, stream_);
    return code ? api_.words(code) : "";
}

double TimedStream::seconds(const std::function<int()> &start) {
    enter_();
    for (CudaApi::Object &e : events_)
        if (!e) api_.check(api_.create_event(&e, CudaApi::event_with_time), "creating an event");
    api_.check(api_.record(events_[0], stream_), "timing a product");
    const int code = start();
    api_.check(api_.record(events_[1], stream_), "timing a product");
    api_.check(wait_.event(events_[1]), "timing a product");
    float milliseconds = 0;
    api_.check(api_.elapsed(&milliseconds, events_[0], events_[1]), "timing a product");
    return code ? std::numeric_limits<double>::infinity() : 1e-3 * double(milliseconds);
}

std::string TimedStream::find(const std::string &library, const std::string &operation) {
    std::string &known = algorithms_[library + " " + operation];
    if (known.empty() && records) known = records->find(gpu_, library, operation);
    return known;
}

void TimedStream::keep(const std::string &library, const std::string &operation, const std::string &algorithm,
                       double seconds) {
    algorithms_[library + " " + operation] = algorithm;
    if (records) records->keep(gpu_, library, operation, algorithm, seconds);
}

void TimedStream::forget() {
    kept_.clear();
    for (CudaApi::Object &e : events_)
        if (e) api_.destroy_event(e), e = nullptr;
}

}  // namespace cryolite
