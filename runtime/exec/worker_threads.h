#pragma once
// A thread for each worker of this process, which waits between its pieces of work.

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace cryolite {

class WorkerThreads {
public:
    /// One worker needs no thread: it works on the caller's.
    explicit WorkerThreads(int workers);
    ~WorkerThreads();
    WorkerThreads(const WorkerThreads &) = delete;

    /// Runs work(w) on the thread of every worker w and waits for all. Throws the first exception; every thread that
    /// meets one calls `failed` before, to tell the others. After `alarm`, workers that are `lost` are not waited for.
    /// Their work may still go on: nothing more can be run then, and what that work uses must stay alive.
    void run(const std::function<void(int)> &work, const std::function<void()> &failed = {},
             const std::function<bool(int)> &lost = {});
    /// Tells `run` to ask which workers are `lost`. Any thread may call it.
    void alarm();
    /// Whether `run` has left a worker behind.
    bool left_behind() const { return left_behind_; }

private:
    static constexpr int alarmed = 1 << 30;  ///< a flag in `left_`, beside the number of workers
    std::vector<std::thread> threads_;
    std::atomic<uint64_t> round_{0};
    std::atomic<int> left_{0};
    std::unique_ptr<std::atomic<bool>[]> working_;  ///< by worker
    std::atomic<bool> stop_{false}, failing_{false}, has_failed_{false};
    const std::function<void(int)> *work_ = nullptr;
    const std::function<void()> *failed_ = nullptr;
    std::exception_ptr failure_;
    bool left_behind_ = false;

    void serve(int worker);
    void stop();
    bool only_lost(const std::function<bool(int)> &lost) const;
};

}  // namespace cryolite
