#include "runtime/crew.h"

#include "runtime/error.h"
#include "runtime/threads.h"

namespace cryolite {

Crew::Crew(int workers) {
    try {
        for (int w = 0; workers > 1 && w < workers; w++)
            threads_.push_back(start_thread(fmt::format("worker {} of {}", w, workers), [this, w] { serve(w); }));
    } catch (...) {
        stop();
        throw;
    }
}

Crew::~Crew() { stop(); }

void Crew::stop() {
    stop_ = true;
    round_++;
    round_.notify_all();
    for (std::thread &t : threads_) t.join();
}

void Crew::serve(int worker) {
    for (uint64_t done = 0;; done++) {
        round_.wait(done);
        if (stop_) return;
        try {
            (*work_)(worker);
        } catch (...) {
            if (!has_failed_.exchange(true)) failure_ = std::current_exception();
            if (*failed_) (*failed_)();
        }
        if (--left_ == 0) left_.notify_one();
    }
}

void Crew::run(const std::function<void(int)> &work, const std::function<void()> &failed) {
    if (threads_.empty()) return work(0);
    work_ = &work, failed_ = &failed, has_failed_ = false;
    left_ = int(threads_.size());
    round_++;
    round_.notify_all();
    for (int left = left_; left > 0; left = left_) left_.wait(left);
    if (has_failed_) std::rethrow_exception(failure_);
}

}  // namespace cryolite
