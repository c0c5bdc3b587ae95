#pragma once
// A thread for each worker of this process, which waits between its pieces of work.

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace cryolite {

class Crew {
public:
    /// One worker needs no thread: it works on the caller's. Errors: the system gives no thread.
    explicit Crew(int workers);
    ~Crew();
    Crew(const Crew &) = delete;

    /// work(w) on the thread of every worker w; waits for all. Throws the first exception, after `failed` was called by
    /// the thread that met it, so that the others can be told.
    void run(const std::function<void(int)> &work, const std::function<void()> &failed = {});

private:
    std::vector<std::thread> threads_;
    std::atomic<uint64_t> round_{0};
    std::atomic<int> left_{0};
    std::atomic<bool> stop_{false}, has_failed_{false};
    const std::function<void(int)> *work_ = nullptr;
    const std::function<void()> *failed_ = nullptr;
    std::exception_ptr failure_;

    void serve(int worker);
    void stop();
};

}  // namespace cryolite
