#pragma once
// Which of several workers gives no sign of life any more, so that nobody waits for it for ever.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

/// A worker hangs, or its process was stopped, killed or cut off.
struct LostWorker : Error {
    using Error::Error;
};

/// Seconds that a worker may give no sign of life, where nobody says.
constexpr double default_patience = 60;

/// What shows that a worker lives: nothing is asked of it, or it works.
struct Signs {
    std::function<bool()> works;  ///< whether it has done something since it was asked last, or waits for others only
    std::atomic<bool> at_work{false};
    /// By one thread, the watch's.
    bool given() const { return !at_work.load(std::memory_order_acquire) || works(); }
};

/// A thread that looks after the signs of all workers, some times in each `patience`. Who waits for others only reads
/// what it found: no wait reads a clock. Time in which this process itself stood still is not counted.
class Watch {
public:
    struct Workers {
        int count;
        std::function<bool(int)> alive;        ///< whether a worker has given a sign since it was asked last
        std::function<std::string(int)> name;  ///< "worker 1"
        std::function<void()> lost = {};       ///< called once, when the first is
    };
    Watch(Workers workers, double patience);
    ~Watch();
    Watch(const Watch &) = delete;

    void set_patience(double seconds) { patience_ = seconds; }
    bool lost(int worker) const { return lost_[size_t(worker)]; }
    bool any_lost() const { return first_.load() >= 0; }
    /// Throws LostWorker with the name of the one that was lost first, if any was.
    void check() const {
        if (any_lost()) fail_lost();
    }

private:
    const Workers workers_;
    std::atomic<double> patience_;
    std::vector<double> silent_;  ///< by worker: seconds without a sign
    std::unique_ptr<std::atomic<bool>[]> lost_;
    std::atomic<int> first_{-1};
    std::mutex lock_;
    std::condition_variable ending_;
    bool end_ = false;
    std::thread thread_;

    void run();
    void look(double passed, double patience);
    [[noreturn]] void fail_lost() const;
};

}  // namespace cryolite
