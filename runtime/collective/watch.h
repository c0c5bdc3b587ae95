#pragma once
// Finds workers that give no sign of life any more, so that nobody waits for them for ever.

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

/// The default patience: after this many seconds without a sign of life a worker is lost.
constexpr double default_patience = 60;

/// What shows that a worker lives: it runs no plan, or it makes progress.
struct Signs {
    std::function<bool()> works;  ///< whether it has made progress since the last call, or only waits for other workers
    std::atomic<bool> at_work{false};
    /// Whether there is a sign now. Called by the watch's thread only.
    bool given() const { return !at_work.load(std::memory_order_acquire) || works(); }
};

/// A thread that checks the signs of all workers, several times in each `patience`. Whoever waits for another worker
/// only reads the result: no wait reads a clock. Time in which this process itself was stopped does not count.
class Watch {
public:
    struct Workers {
        int count;
        std::function<bool(int)> alive;        ///< whether a worker has given a sign since the last call
        std::function<std::string(int)> name;  ///< "worker 1"
        std::function<void()> lost = {};       ///< called once, when the first worker is lost
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
