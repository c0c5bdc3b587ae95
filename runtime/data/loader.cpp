#include "runtime/data/loader.h"

#include "runtime/io/error.h"
#include "runtime/system/threads.h"
#include "runtime/system/trace.h"

namespace cryolite {

namespace {

constexpr uint64_t stopped = ~uint64_t{0};

}  // namespace

Loader::Loader(std::unique_ptr<BatchSource> source, uint64_t first, int ahead)
    : source_(std::move(source)), position_(first) {
    if (ahead < 1) fail("a loader prepares at least 1 micro-batch ahead, not {}", ahead);
    slots_.resize(static_cast<size_t>(ahead) + 1);  // and one in the consumer's hands
    for (Batch &slot : slots_) source_->allocate(slot);
    start();
}

Loader::~Loader() { stop(); }

void Loader::start() {
    first_ = position_;
    made_ = 0;
    wanted_ = slots_.size();
    failed_ = false;
    failure_ = nullptr;
    thread_ = start_thread("the data's loader", [this] { run(); });
}

void Loader::stop() {
    if (!thread_.joinable()) return;
    wanted_ = stopped;
    wanted_.notify_one();
    thread_.join();
}

void Loader::seek(uint64_t position) {
    if (position == position_ && !failed_) return;
    stop();
    position_ = position;
    start();
}

/// Makes batch after batch while there is a free slot; the only writer of made_.
void Loader::run() {
    name_thread("loader");
    for (uint64_t n = 0;; ++n) {
        uint64_t wanted = wanted_;
        while (wanted != stopped && n >= wanted) {
            wanted_.wait(wanted);
            wanted = wanted_;
        }
        if (wanted == stopped) return;
        try {
            const TraceSpan span("loader", "micro-batch", int64_t(first_ + n));
            source_->fill(first_ + n, slots_[n % slots_.size()]);
        } catch (...) {
            failure_ = std::current_exception();
            failed_ = true;
        }
        made_ = n + 1;
        made_.notify_one();
        if (failed_) return;
    }
}

const Batch &Loader::next() {
    const uint64_t n = position_ - first_;
    // Only now is the batch of the last call free: its slot may be filled again.
    wanted_ = n + slots_.size();
    wanted_.notify_one();
    if (made_ <= n) {
        const TraceSpan span("wait", "wait for the loader");
        for (uint64_t made = made_; made <= n; made = made_) made_.wait(made);
    }
    if (failed_ && made_ == n + 1) std::rethrow_exception(failure_);
    ++position_;
    return slots_[n % slots_.size()];
}

}  // namespace cryolite
