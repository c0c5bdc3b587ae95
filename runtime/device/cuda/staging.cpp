#include "runtime/device/cuda/staging.h"

#include <cstring>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr size_t largest = size_t(4) << 20;      // weights are too large to stage
constexpr size_t most_bytes = size_t(64) << 20;  // bytes of all places

}  // namespace

CudaStaging::CudaStaging(const CudaApi &api, CudaApi::Object compute, HostWait &wait)
    : api_(api), compute_(compute), wait_(wait) {
    api_.check(api_.create_stream(&copies_, CudaApi::stream_apart), "creating the stream of copies");
}

CudaStaging::~CudaStaging() {
    api_.wait_for_stream(copies_);
    for (const Place &p : places_) drop(p);
    for (const Mark &m : marks_) api_.destroy_event(m.event);
    for (CudaApi::Object e : events_) api_.destroy_event(e);
    api_.destroy_stream(copies_);
}

void CudaStaging::drop(const Place &p) {
    if (p.done) api_.destroy_event(p.done);
    if (p.copied) api_.destroy_event(p.copied);
    if (p.on_device) api_.free(p.on_device);
    if (p.pinned) api_.free_pinned(p.pinned);
}

CudaApi::Object CudaStaging::new_event() {
    CudaApi::Object event = nullptr;
    if (!events_.empty()) return event = events_.back(), events_.pop_back(), event;
    api_.check(api_.create_event(&event, CudaApi::event_without_time), "creating an event");
    return event;
}

bool CudaStaging::is_free(const Place &p) const { return !p.to && api_.is_done(p.done) == 0; }

/// A place that the GPU has left; those of one step serve the step after the next. Null: it would be too much memory.
CudaStaging::Place *CudaStaging::take(size_t bytes, bool upload, bool always) {
    if (bytes > largest && !always) return nullptr;
    for (Place &p : places_)
        if (p.upload == upload && p.bytes == bytes && is_free(p)) return &p;
    if (held_ + bytes > most_bytes && !always) return nullptr;
    Place p{.bytes = bytes, .upload = upload};
    try {
        api_.check(api_.allocate_pinned(&p.pinned, bytes, 0), "allocating pinned memory");
        p.done = new_event();
        if (upload) {
            p.copied = new_event();
            const CudaApi::Code code = api_.allocate(&p.on_device, bytes);
            if (code == CudaApi::out_of_memory) return drop(p), nullptr;
            api_.check(code, "allocating a place for batches");
        }
    } catch (const Error &) {
        drop(p);
        throw;
    }
    if (bytes <= largest) held_ += bytes;
    return &places_.emplace_back(p);
}

bool CudaStaging::upload(CudaApi::Address to, const void *from, size_t bytes, bool always) {
    Place *p = take(bytes, true, always);
    if (!p) return false;
    std::memcpy(p->pinned, from, bytes);
    api_.check(api_.to_device(p->on_device, p->pinned, bytes, copies_), "copying to the device");
    api_.check(api_.record(p->copied, copies_), "copying to the device");
    api_.check(api_.stream_waits(compute_, p->copied, 0), "copying to the device");
    api_.check(api_.within(to, p->on_device, bytes, compute_), "copying to the device");
    api_.check(api_.record(p->done, compute_), "copying to the device");
    return true;
}

bool CudaStaging::download(void *to, CudaApi::Address from, size_t bytes) {
    Place *p = take(bytes, false);
    if (!p) return false;
    api_.check(api_.to_host(p->pinned, from, bytes, compute_), "copying from the device");
    api_.check(api_.record(p->done, compute_), "copying from the device");
    p->to = to, p->wanted = bytes, p->mark = marked_ + 1;
    return true;
}

uint64_t CudaStaging::mark() {
    const CudaApi::Object event = new_event();
    const CudaApi::Code code = api_.record(event, compute_);
    if (code) events_.push_back(event);
    api_.check(code, "marking the end of a step");
    marks_.push_back({++marked_, event});
    return marked_;
}

void CudaStaging::await(uint64_t mark) {
    for (; !marks_.empty() && marks_.front().number <= mark; marks_.pop_front()) {
        const CudaApi::Object event = marks_.front().event;
        CudaApi::Code code = api_.is_done(event);
        if (code == CudaApi::not_ready) waits_++, code = wait_.event(event);
        api_.check(code, "a step that was started before");
        events_.push_back(event);
    }
    deliver(mark);
}

void CudaStaging::all_done() {
    for (const Mark &m : marks_) events_.push_back(m.event);
    marks_.clear();
    deliver(marked_ + 1);
}

void CudaStaging::forget() {
    for (Place &p : places_) p.to = nullptr;
}

void CudaStaging::deliver(uint64_t mark) {
    for (Place &p : places_)
        if (p.to && p.mark <= mark) std::memcpy(p.to, p.pinned, p.wanted), p.to = nullptr;
}

}  // namespace cryolite
