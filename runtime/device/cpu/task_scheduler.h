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

/// One parallel region for a whole plan, without barriers. A thread that has nothing to do takes an iteration of the
/// earliest loop that is open; where none is, it begins the earliest call whose needs are done, also while the last
/// iterations of its own loop run elsewhere. So the update of one layer fills the ends of the next one's loops, and a
/// thread that the system has put aside holds up only those who need its result. Half of the threads take a loop's
/// iterations from its begin, the others from its end: rows and panels that kernels share meet the same half of the
/// threads again, whose caches have them. A call whose gate is closed is passed over and asked again: one worker does
/// not stand still where another is late. Who runs what changes no value.
class TaskScheduler {
public:
    /// `cores`: by thread, where it stays from its first run on; empty: where the system puts it.
    explicit TaskScheduler(int threads, std::vector<int> cores = {});
    TaskScheduler(const TaskScheduler &) = delete;

    /// Runs every call once, each after those it waits for. The first call that failed, or {-1, 0}.
    CallFailure run(std::span<const KernelCall> calls);
    /// Iterations first ... first + count - 1 of a loop; the first code that is not 0.
    int loop(halide_task_t task, int first, int count, uint8_t *closure);
    /// Seconds that threads have waited for each other in `run`, added over threads.
    double idle_seconds() const;
    /// Whether a thread has ended a call or an iteration since this was asked last, or all of them wait. By one thread.
    bool works();

    const int threads;
    std::vector<Pool> pools;  ///< one for each thread, so that no lock is needed
    /// A kernel fails, on any thread: its message, the last of which is kept.
    void note_error(const char *message);
    std::string error() const;

private:
    /// What a thread writes down of itself.
    struct alignas(64) Diary {
        std::atomic<int64_t> idle{0};   ///< nanoseconds
        std::atomic<uint64_t> done{0};  ///< calls and iterations
        std::atomic<bool> waiting{false};
    };

    static constexpr int most_calls = 2;  ///< that a thread is in: one while it waits for a loop of the other
    std::unique_ptr<Loop[]> loops_;       ///< by thread and call
    std::unique_ptr<Diary[]> diaries_;    ///< by thread
    uint64_t done_before_ = 0;            ///< by all threads, when `works` was asked last
    std::span<const KernelCall> calls_;
    std::vector<std::atomic<int>> waits_;  ///< by call: needs that are not done; begun, or its gate being asked
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
