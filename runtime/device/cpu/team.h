#pragma once
// What a kernel's user context points to on the CPU: the OpenMP team that runs calls and their parallel loops, and the
// pools their temporaries come from.

#include <HalideRuntime.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
class Team {
public:
    /// `cores`: by thread, where it stays from its first run on; empty: where the system puts it.
    explicit Team(int threads, std::vector<int> cores = {});
    Team(const Team &) = delete;

    /// Runs every call once, each after those it waits for. The first call that failed, or {-1, 0}.
    CallFailure run(std::span<const KernelCall> calls);
    /// Iterations first ... first + count - 1 of a loop; the first code that is not 0.
    int loop(halide_task_t task, int first, int count, uint8_t *closure);
    /// Seconds that threads have waited for each other in `run`, added over threads.
    double idle_seconds() const;

    const int threads;
    std::vector<Pool> pools;  ///< one for each thread, so that no lock is needed
    std::string error;        ///< message of a kernel that failed

private:
    /// How many iterations of a loop were claimed from its begin and from its end, and which loop it is.
    struct Ticket {
        static constexpr uint64_t one = 1, bits = 20, most = (one << bits) - 1;
        uint64_t value = 0;
        int begin() const { return int(value & most); }
        int end() const { return int(value >> bits & most); }
        int claimed() const { return begin() + end(); }
        Ticket after(bool from_end) const { return {value + (from_end ? one << bits : one)}; }
        Ticket closed() const { return {(((value >> 2 * bits) + 1) << 2 * bits) | most}; }
        Ticket opened() const { return {((value >> 2 * bits) + 1) << 2 * bits}; }
    };
    /// The loop that a thread has opened. A thread reads it, then claims an iteration by raising `ticket` from the
    /// value it saw before: so what it read belongs to that loop, which waits for it.
    struct alignas(64) Loop {
        std::atomic<uint64_t> ticket{0};
        std::atomic<halide_task_t> task{nullptr};
        std::atomic<uint8_t *> closure{nullptr};
        std::atomic<int> first{0}, count{0}, call{0};
        alignas(64) std::atomic<int> finished{0};
        std::atomic<int> code{0};
        bool open() const {
            return Ticket{ticket.load(std::memory_order_relaxed)}.claimed() < count.load(std::memory_order_relaxed) &&
                   task.load(std::memory_order_relaxed);
        }
    };
    struct alignas(64) Idle {
        std::atomic<int64_t> nanoseconds{0};
    };

    static constexpr int most_calls = 2;  ///< that a thread is in: one while it waits for a loop of the other
    std::unique_ptr<Loop[]> loops_;       ///< by thread and call
    std::unique_ptr<Idle[]> idle_;
    std::span<const KernelCall> calls_;
    std::vector<std::atomic<int>> waits_;  ///< by call: needs that are not done; begun, or its gate being asked
    std::atomic<int> first_{0};            ///< all calls before it have begun
    alignas(64) std::atomic<int> done_{0};
    std::atomic<int> failed_{-1}, failed_code_{0};
    bool running_ = false;
    const std::vector<int> cores_;
    std::vector<char> pinned_;  ///< by thread

    struct Iteration {
        Loop *loop = nullptr;  ///< null: none
        halide_task_t task;
        int index;
        uint8_t *closure;
    };

    void pin(int index);
    void serve(int index);
    template <class Done>
    void work_until(Done done);
    bool ask(size_t call);
    void lead(int call);
    int begin_call();
    Iteration claim_any();
    Iteration claim(Loop &l);
    void run(const Iteration &i);
};

/// The index of the calling thread in its team; 0 outside of one.
int team_thread();

}  // namespace cryolite
