#pragma once
// What a kernel's user context points to on the CPU: the OpenMP team that runs its parallel loops, and the
// pools its temporaries come from.

#include <HalideRuntime.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

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

/// One parallel region for a whole plan. Thread 0 runs the kernels; where one has a parallel loop, all threads
/// take iterations from it. A loop ends when its iterations are done: a thread that the system has put aside
/// holds up nobody, unlike at the barrier that ends an OpenMP loop.
class Team {
public:
    explicit Team(int threads) : threads(threads), pools(size_t(threads)) {}
    Team(const Team &) = delete;

    /// Runs `work` on the calling thread with the team beside it. Exceptions of `work` are passed on.
    void run(const std::function<void()> &work);
    /// Iterations first ... first + count - 1 of a loop; the first code that is not 0.
    int loop(halide_task_t task, int first, int count, uint8_t *closure);

    const int threads;
    std::vector<Pool> pools;  ///< one for each thread, so that no lock is needed
    std::string error;        ///< message of the last kernel that failed

private:
    // The loop at hand. A thread reads it, then claims an iteration by raising `ticket` (loop << 32 | next)
    // from the value it saw before: so what it read belongs to that loop, which now waits for it.
    alignas(64) std::atomic<uint64_t> ticket_{0};
    std::atomic<halide_task_t> task_{nullptr};
    std::atomic<uint8_t *> closure_{nullptr};
    std::atomic<int> first_{0}, count_{0};
    alignas(64) std::atomic<int> finished_{0};
    std::atomic<int> code_{0};
    std::atomic<bool> open_{false};

    bool take_one();
    void serve(int index);
};

/// The index of the calling thread in its team; 0 outside of one.
int team_thread();

/// Takes over parallel loops, temporaries and error messages of all Halide kernels in this process, once.
void install_halide_hooks();

}  // namespace cryolite
