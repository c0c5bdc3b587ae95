#pragma once
// What a kernel's user context points to on the CPU: the OpenMP scheduler that runs calls and their parallel loops, and
// the pools their temporaries come from.

#include <HalideRuntime.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/cpu/loop.h"
#include "runtime/device/device.h"

namespace cryolite {

/// Temporaries of one thread: few sizes, returned in any order, never given back to the system.
class Pool {
public:
    Pool() = default;
    Pool(const Pool &) = delete;
    ~Pool();
    void *take(size_t bytes);
    /// False where the block is not one of this pool's.
    bool give(void *block);
    size_t bytes() const { return bytes_; }

private:
    struct Block {
        void *address;
        size_t bytes;
        bool used;
    };
    std::vector<Block> blocks_;
    size_t bytes_ = 0;
};

/// Runs a whole plan in one parallel region, without barriers. A thread with nothing to do takes an iteration of the
/// open loop of the earliest call. Where no loop is open, it begins the earliest call that waits for nothing. It also
/// does so while the last iterations of its own loop run elsewhere. So the update of one layer fills the ends of the
/// next layer's loops, and a thread that the system preempts holds up only those that need its result. Half of the
/// threads take a loop's iterations from its begin, the others from its end: rows and panels that several kernels share
/// stay in the caches of one half. A call with a closed gate is passed over and asked again, so a worker does not idle
/// where another is late. Which thread runs what changes no value.
class TaskScheduler {
public:
    /// `cores`: by thread, the core to which it is pinned from its first run on; empty: threads are not pinned.
    explicit TaskScheduler(int threads, std::vector<int> cores = {});
    TaskScheduler(const TaskScheduler &) = delete;

    /// Runs every call once, each after those it waits for. The first call that failed, or {-1, 0}.
    CallFailure run(std::span<const KernelCall> calls);
    /// Runs iterations first ... first + count - 1 of a loop. Returns 0, or the code of an iteration that failed.
    int loop(halide_task_t task, int first, int count, uint8_t *closure);
    /// Seconds that threads have waited for each other in `run`, summed over threads.
    double idle_seconds() const;
    /// Whether a thread has ended a call or an iteration since the last call, or all threads wait. Asked by one thread.
    bool works();

    const int threads;
    std::vector<Pool> pools;  ///< one for each thread, so that no lock is needed
    /// Keeps the message of a kernel that fails, on any thread. `error` has the last one.
    void note_error(const char *message);
    std::string error() const;

private:
    /// What a thread records of its own work.
    struct alignas(64) Diary {
        std::atomic<int64_t> idle{0};   ///< nanoseconds
        std::atomic<uint64_t> done{0};  ///< calls and iterations
        std::atomic<bool> waiting{false};
    };

    static constexpr int most_calls = 2;  ///< that a thread may be in: one more while it waits for a loop of the first
    std::unique_ptr<Loop[]> loops_;       ///< by thread and call
    std::unique_ptr<Diary[]> diaries_;    ///< by thread
    uint64_t done_before_ = 0;            ///< the sum over threads when `works` was last called
    std::span<const KernelCall> calls_;
    std::vector<std::atomic<int>> waits_;  ///< by call: how many needs are not done; or `begun`, or `asked`
    std::atomic<int> first_{0};            ///< all calls before it have begun
    alignas(64) std::atomic<int> done_{0};
    std::atomic<int> failed_{-1}, failed_code_{0};
    bool running_ = false;
    const std::vector<int> cores_;
    std::vector<char> pinned_;       ///< by thread
    mutable std::mutex error_lock_;  ///< several kernels may fail at once
    std::string error_;

    struct Iteration {
        Loop *loop = nullptr;  ///< null: none
        Loop::Claim claimed;
    };

    void pin(int index);
    void serve(int index);
    template <class Done> void work_until(Done done);
    bool ask(size_t call);
    void lead(int call);
    int begin_call();
    Iteration claim_any();
    void run(const Iteration &i);
    void note_done();
    class Wait;
};

/// The index of the calling thread in its scheduler; 0 outside of one.
int scheduler_thread();

}  // namespace cryolite
