#pragma once
// The loop that a thread of a scheduler has opened, and how the others claim its iterations, without a lock.

#include <HalideRuntime.h>

#include <atomic>
#include <cstdint>

namespace cryolite {

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

/// One thread opens loop after loop; any thread claims iterations.
///
/// A thread reads the ticket, then the fields, then raises the ticket from the value that it saw. Its claim is always
/// of the loop whose fields it read. The C++ memory model guarantees this, on every processor:
/// - The fields are not older than the ticket. The ticket was read by acquire from the store of `open`, which comes
///   after those of the fields, or from a claim after it, which continues that store's release sequence.
/// - The fields are not newer. Every store of a field is a release that comes after the store of the closed ticket, and
///   fields are read by acquire. So the closed ticket happens before the read of a newer field. The reader's claim must
///   see the last value of the ticket, which is not the one that it read before: the claim fails.
/// - A ticket does not have one value twice while a thread claims. Its number of the loop repeats after 2^23 loops, and
///   no thread is in a claim when a scheduler's run ends.
/// - A closed ticket shows at least as many claims as any loop has iterations, so nobody can claim from it.
/// - `open` comes after all iterations of the loop before have ended, so nobody still has one of them.
/// tests/runtime/test_loop_model tries the orders that the model allows. `Atomic`: std::atomic, or that test's own.
template <template <class> class Atomic> struct alignas(64) BasicLoop {
    static constexpr int most = int(Ticket::most) - 1;  ///< iterations

    struct Claim {
        halide_task_t task = nullptr;  ///< null: none is left, or another thread was faster
        int index = 0;
        uint8_t *closure = nullptr;
    };

    /// Opens the next loop; only the thread that owns it does. `call`: index of the loop's call in the plan.
    void open(halide_task_t task, int first, int count, uint8_t *closure, int call) {
        finished.store(0, std::memory_order_relaxed);
        code.store(0, std::memory_order_relaxed);
        const Ticket closed = Ticket{ticket_.load(std::memory_order_relaxed)}.closed();
        ticket_.store(closed.value, std::memory_order_release);
        task_.store(task, std::memory_order_release);
        closure_.store(closure, std::memory_order_release);
        first_.store(first, std::memory_order_release);
        count_.store(count, std::memory_order_release);
        call_.store(call, std::memory_order_relaxed);
        ticket_.store(closed.opened().value, std::memory_order_release);
    }
    /// Whether an iteration seems to be left.
    bool is_open() const {
        return Ticket{ticket_.load(std::memory_order_relaxed)}.claimed() < count_.load(std::memory_order_relaxed);
    }
    int call() const { return call_.load(std::memory_order_relaxed); }

    Claim claim(bool from_end) {
        const Ticket ticket{ticket_.load(std::memory_order_acquire)};
        const halide_task_t task = task_.load(std::memory_order_acquire);
        uint8_t *const closure = closure_.load(std::memory_order_acquire);
        const int first = first_.load(std::memory_order_acquire), count = count_.load(std::memory_order_acquire);
        if (ticket.claimed() >= count) return {};
        uint64_t seen = ticket.value;
        if (!ticket_.compare_exchange_strong(seen, ticket.after(from_end).value, std::memory_order_acq_rel)) return {};
        return {task, first + (from_end ? count - 1 - ticket.end() : ticket.begin()), closure};
    }

private:
    Atomic<uint64_t> ticket_{0};
    Atomic<halide_task_t> task_{nullptr};
    Atomic<uint8_t *> closure_{nullptr};
    Atomic<int> first_{0}, count_{0}, call_{0};

public:
    alignas(64) Atomic<int> finished{0};  ///< iterations that have ended
    Atomic<int> code{0};                  ///< of an iteration that failed
};

using Loop = BasicLoop<std::atomic>;

}  // namespace cryolite
