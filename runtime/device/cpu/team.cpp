#include "runtime/device/cpu/team.h"

#include <omp.h>
#include <sched.h>

#include <exception>

namespace cryolite {

namespace {

thread_local int own_index = 0;
thread_local bool in_loop = false;  // a loop inside a loop runs on the thread that meets it

/// Spins for some microseconds, then lets others have the core.
class Patience {
public:
    void wait() {
        if (++turns_ < 4000) __builtin_ia32_pause();
        else sched_yield();
    }
    void reset() { turns_ = 0; }

private:
    int turns_ = 0;
};

}  // namespace

int team_thread() { return own_index; }

void Team::run(const std::function<void()> &work) {
    if (threads == 1) return work();
    std::exception_ptr failure;
    open_.store(true, std::memory_order_relaxed);
#pragma omp parallel num_threads(threads)
    {
        int index = omp_get_thread_num();
        own_index = index;
        if (index == 0) {
            try {
                work();
            } catch (...) {
                failure = std::current_exception();
            }
            open_.store(false, std::memory_order_release);
        } else {
            serve(index);
        }
        own_index = 0;
    }
    if (failure) std::rethrow_exception(failure);
}

void Team::serve(int index) {
    Patience patience;
    own_index = index;
    while (open_.load(std::memory_order_acquire))
        if (take_one()) patience.reset();
        else patience.wait();
}

bool Team::take_one() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    halide_task_t task = task_.load(std::memory_order_relaxed);
    uint8_t *closure = closure_.load(std::memory_order_relaxed);
    int first = first_.load(std::memory_order_relaxed), count = count_.load(std::memory_order_relaxed);
    uint32_t next = uint32_t(ticket);
    if (next >= uint32_t(count) || !task) return false;
    if (!ticket_.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel)) return true;
    in_loop = true;
    if (int code = task(this, first + int(next), closure)) code_.store(code, std::memory_order_relaxed);
    in_loop = false;
    finished_.fetch_add(1, std::memory_order_release);
    return true;
}

int Team::loop(halide_task_t task, int first, int count, uint8_t *closure) {
    if (count <= 1 || in_loop || !open_.load(std::memory_order_relaxed)) {
        for (int i = first; i < first + count; i++)
            if (int code = task(this, i, closure)) return code;
        return 0;
    }
    finished_.store(0, std::memory_order_relaxed);
    code_.store(0, std::memory_order_relaxed);
    // Nobody can claim while the fields change: the old loop has no iteration left, and a thread that reads
    // fields of two loops fails to claim, for the ticket names the loop.
    task_.store(nullptr, std::memory_order_release);
    uint64_t next_loop = ((ticket_.load(std::memory_order_relaxed) >> 32) + 1) << 32;
    ticket_.store(next_loop | 0xffffffff, std::memory_order_release);
    closure_.store(closure, std::memory_order_relaxed);
    first_.store(first, std::memory_order_relaxed);
    count_.store(count, std::memory_order_relaxed);
    task_.store(task, std::memory_order_relaxed);
    ticket_.store(next_loop + (uint64_t(1) << 32), std::memory_order_release);
    while (take_one()) {}
    Patience patience;
    while (finished_.load(std::memory_order_acquire) < count) patience.wait();
    return code_.load(std::memory_order_relaxed);
}

}  // namespace cryolite
