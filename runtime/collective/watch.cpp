#include "runtime/collective/watch.h"

#include <algorithm>

namespace cryolite {

Watch::Watch(Workers workers, double patience)
    : workers_(std::move(workers)), patience_(patience), silent_(size_t(workers_.count)),
      lost_(new std::atomic<bool>[size_t(workers_.count)]()), thread_([this] { run(); }) {}

Watch::~Watch() {
    {
        const std::lock_guard lock(lock_);
        end_ = true;
    }
    ending_.notify_one();
    thread_.join();
}

void Watch::run() {
    using Seconds = std::chrono::duration<double>;
    using Clock = std::chrono::steady_clock;
    Clock::time_point before = Clock::now();
    for (std::unique_lock lock(lock_);;) {
        const double patience = patience_, pause = std::min(patience / 8, 1.0);
        if (ending_.wait_for(lock, Seconds(pause), [this] { return end_; })) return;
        const Clock::time_point now = Clock::now();
        // A longer time means that this process was stopped: it could not see the signs that others gave meanwhile.
        look(std::min(Seconds(now - before).count(), 2 * pause), patience);
        before = now;
    }
}

void Watch::look(double passed, double patience) {
    for (int w = 0; w < workers_.count; w++) {
        double &silent = silent_[size_t(w)];
        silent = workers_.alive(w) ? 0 : silent + passed;
        if (silent <= patience || lost_[size_t(w)]) continue;
        lost_[size_t(w)] = true;
        if (int none = -1; first_.compare_exchange_strong(none, w) && workers_.lost) workers_.lost();
    }
}

void Watch::fail_lost() const {
    throw LostWorker(
        fmt::format("{} has given no sign of life for {:g} s (--patience): it hangs, or it was stopped, killed or "
                    "cut off",
                    workers_.name(first_), patience_.load()));
}

}  // namespace cryolite
