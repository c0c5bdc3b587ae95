#include "runtime/exec/worker_threads.h"

#include <chrono>

#include "runtime/io/error.h"
#include "runtime/system/threads.h"
#include "runtime/system/trace.h"

namespace cryolite {

WorkerThreads::WorkerThreads(int workers) : working_(new std::atomic<bool>[size_t(workers)]()) {
    try {
        for (int w = 0; workers > 1 && w < workers; w++)
            threads_.push_back(start_thread(fmt::format("worker {} of {}", w, workers), [this, w] { serve(w); }));
    } catch (...) {
        stop();
        throw;
    }
}

WorkerThreads::~WorkerThreads() { stop(); }

void WorkerThreads::stop() {
    stop_ = true;
    round_++;
    round_.notify_all();
    for (size_t w = 0; w < threads_.size(); w++)
        if (working_[w])
            threads_[w].detach();
        else
            threads_[w].join();
}

void WorkerThreads::serve(int worker) {
    name_thread(fmt::format("worker {}", worker));
    for (uint64_t done = 0;; done++) {
        round_.wait(done);
        if (stop_) return;
        try {
            (*work_)(worker);
        } catch (...) {
            if (!failing_.exchange(true)) {
                failure_ = std::current_exception();
                has_failed_ = true;
            }
            if (*failed_) (*failed_)();
        }
        working_[size_t(worker)] = false;
        if ((--left_ & ~alarmed) == 0) left_.notify_one();
    }
}

void WorkerThreads::alarm() {
    left_ |= alarmed;
    left_.notify_one();
}

bool WorkerThreads::only_lost(const std::function<bool(int)> &lost) const {
    for (size_t w = 0; w < threads_.size(); w++)
        if (working_[w] && !(lost && lost(int(w)))) return false;
    return true;
}

void WorkerThreads::run(const std::function<void(int)> &work, const std::function<void()> &failed,
                        const std::function<bool(int)> &lost) {
    if (threads_.empty()) return work(0);
    const TraceSpan span("wait", "wait for the workers");
    work_ = &work, failed_ = &failed, failing_ = has_failed_ = false;
    for (size_t w = 0; w < threads_.size(); w++) working_[w] = true;
    left_ += int(threads_.size());
    round_++;
    round_.notify_all();
    for (int left = left_; (left & ~alarmed) > 0 && !left_behind_; left = left_) {
        if (!(left & alarmed)) {
            left_.wait(left);
        } else if (only_lost(lost)) {
            left_behind_ = (left_ & ~alarmed) > 0;
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    if (has_failed_) std::rethrow_exception(failure_);
}

}  // namespace cryolite
