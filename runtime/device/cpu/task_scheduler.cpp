#include "runtime/device/cpu/task_scheduler.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/system/threads.h"

namespace cryolite {

namespace {

constexpr int begun = -1, asked = -2;  // in `waits_`, in place of a number of needs; asked: a thread asks the gate

thread_local int own_index = 0, own_call = 0;
thread_local int calls_in = 0;              // calls that this thread is in
thread_local bool in_loop = false;          // a loop inside a loop runs on the thread that meets it
thread_local bool met_closed_gate = false;  // since this thread began to wait

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Runs work(t) on every thread t of a scheduler. The threads are OpenMP's, which keeps them between runs.
/// ThreadSanitizer does not see where an OpenMP region begins and ends, so its builds start and join std::threads.
template <class Work> void on_threads(int threads, const Work &work) {
#if defined(__SANITIZE_THREAD__)
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, t);
    work(0);
    for (std::thread &t : others) t.join();
#else
#pragma omp parallel num_threads(threads)
    work(omp_get_thread_num());
#endif
}

}  // namespace

/// Spins for some microseconds, then yields the core; adds up the time.
class TaskScheduler::Wait {
public:
    explicit Wait(Diary &diary) : diary_(diary) {}
    ~Wait() { end(); }
    void turn() {
        if (turns_ == 0) {
            began_ = Clock::now();
            met_closed_gate = false;
            diary_.waiting.store(true, std::memory_order_relaxed);
        }
        if (++turns_ < 4000)
            pause();
        else
            sched_yield();
    }
    void end() {
        if (turns_ == 0) return;
        auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_).count();
        diary_.idle.store(diary_.idle.load(std::memory_order_relaxed) + passed, std::memory_order_relaxed);
        diary_.waiting.store(false, std::memory_order_relaxed);
        if (tracing()) trace_since("wait", met_closed_gate ? "wait for another worker" : "wait for threads", began_);
        turns_ = 0;
    }

private:
    using Clock = std::chrono::steady_clock;
    Diary &diary_;
    Clock::time_point began_;
    int turns_ = 0;
};

int scheduler_thread() { return own_index; }

TaskScheduler::TaskScheduler(int threads, std::vector<int> cores)
    : threads(threads), pools(size_t(threads)), loops_(new Loop[size_t(threads * most_calls)]),
      diaries_(new Diary[size_t(threads)]), cores_(std::move(cores)), pinned_(size_t(threads)) {}

/// Pins the calling thread to its core. Where the system refuses, the thread stays unpinned.
void TaskScheduler::pin(int index) {
    if (pinned_[size_t(index)]) return;
    pinned_[size_t(index)] = true;
    if (size_t(index) >= cores_.size()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores_[size_t(index)], &set);
    sched_setaffinity(0, sizeof set, &set);
}

void TaskScheduler::note_error(const char *message) {
    const std::lock_guard lock(error_lock_);
    error_ = message;
}

std::string TaskScheduler::error() const {
    const std::lock_guard lock(error_lock_);
    return error_;
}

double TaskScheduler::idle_seconds() const {
    double sum = 0;
    for (int t = 0; t < threads; t++) sum += 1e-9 * double(diaries_[size_t(t)].idle.load());
    return sum;
}

void TaskScheduler::note_done() {
    std::atomic<uint64_t> &done = diaries_[size_t(own_index)].done;
    done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool TaskScheduler::works() {
    uint64_t done = 0;
    bool all_wait = true;
    for (int t = 0; t < threads; t++) {
        done += diaries_[size_t(t)].done.load(std::memory_order_relaxed);
        all_wait &= diaries_[size_t(t)].waiting.load(std::memory_order_relaxed);
    }
    return std::exchange(done_before_, done) != done || all_wait;
}

CallFailure TaskScheduler::run(std::span<const KernelCall> calls) {
    if (threads == 1) pin(0);
    const bool gated = std::ranges::any_of(calls, [](const KernelCall &c) { return bool(c.gate); });
    if (threads == 1 && !gated) {
        for (size_t i = 0; i < calls.size(); i++)
            if (int code = run_call(calls[i])) return {int(i), code};
        return {};
    }
    require_threads(threads);
    if (waits_.size() < calls.size()) waits_ = std::vector<std::atomic<int>>(calls.size());
    for (size_t i = 0; i < calls.size(); i++) waits_[i].store(calls[i].waits, std::memory_order_relaxed);
    calls_ = calls, first_ = 0, done_ = 0, failed_ = -1, running_ = threads > 1;
    if (threads == 1) {
        serve(0);
    } else {
        const std::string *leader = tracing() ? &thread_name() : nullptr;
        on_threads(threads, [this, leader](int index) {
            if (leader && index > 0)
                name_thread(*leader == "main" ? fmt::format("thread {}", index)
                                              : fmt::format("{}, thread {}", *leader, index));
            pin(index);
            serve(index);
        });
    }
    running_ = false;
    return {failed_, failed_ < 0 ? 0 : failed_code_.load()};
}

void TaskScheduler::serve(int index) {
    own_index = index;
    const int all = int(calls_.size());
    work_until(
        [&] { return done_.load(std::memory_order_acquire) >= all || failed_.load(std::memory_order_relaxed) >= 0; });
    own_index = 0;
}

template <class Done> void TaskScheduler::work_until(Done done) {
    Wait wait(diaries_[size_t(own_index)]);
    while (!done()) {
        if (Iteration i = claim_any(); i.loop) {
            wait.end();
            run(i);
        } else if (int call = calls_in < most_calls ? begin_call() : -1; call >= 0) {
            wait.end();
            lead(call);
        } else {
            wait.turn();
        }
    }
}

/// Claims the earliest call that waits for nothing; -1: there is none.
int TaskScheduler::begin_call() {
    const int all = int(calls_.size());
    int first = first_.load(std::memory_order_relaxed);
    for (int i = first; i < all; i++) {
        int waits = waits_[size_t(i)].load(std::memory_order_acquire);
        if (waits == begun && i == first) {
            int expected = first++;
            first_.compare_exchange_strong(expected, first, std::memory_order_relaxed);
        }
        const int claim = calls_[size_t(i)].gate ? asked : begun;
        if (waits == 0 && waits_[size_t(i)].compare_exchange_strong(waits, claim, std::memory_order_acq_rel))
            if (claim == begun || ask(size_t(i))) return i;
    }
    return -1;
}

/// Whether the gate of a call that this thread has claimed lets it begin; if not, the claim is given back.
bool TaskScheduler::ask(size_t call) {
    const Gate gate = calls_[call].gate();
    waits_[call].store(gate == Gate::open ? begun : 0, std::memory_order_release);
    if (gate == Gate::closed) met_closed_gate = true;
    if (gate == Gate::broken) {
        int none = -1;
        if (failed_.compare_exchange_strong(none, int(call))) failed_code_ = gate_broken;
    }
    return gate == Gate::open;
}

void TaskScheduler::lead(int call) {
    const int outer = std::exchange(own_call, call);
    const KernelCall &c = calls_[size_t(call)];
    calls_in++;
    const int code = run_call(c);
    calls_in--, own_call = outer;
    note_done();
    if (code) {
        int none = -1;
        if (failed_.compare_exchange_strong(none, call)) failed_code_ = code;
        return;
    }
    for (int after : c.next) waits_[size_t(after)].fetch_sub(1, std::memory_order_acq_rel);
    done_.fetch_add(1, std::memory_order_release);
}

/// Claims an iteration of the open loop of the earliest call.
TaskScheduler::Iteration TaskScheduler::claim_any() {
    for (;;) {
        Loop *best = nullptr;
        int earliest = 0;
        for (int i = 0; i < threads * most_calls; i++) {
            Loop &l = loops_[size_t(i)];
            if (!l.is_open()) continue;
            const int call = l.call();
            if (!best || call < earliest) best = &l, earliest = call;
        }
        if (!best) return {};
        if (const Loop::Claim claimed = best->claim(2 * own_index >= threads); claimed.task) return {best, claimed};
    }
}

void TaskScheduler::run(const Iteration &i) {
    in_loop = true;
    const int call = i.loop->call();  // read first: after the last iteration the loop may be opened for another call
    const auto began = tracing() ? TraceClock::now() : TraceClock::time_point();
    const int code = i.claimed.task(this, i.claimed.index, i.claimed.closure);
    if (call != own_call && tracing()) [[unlikely]]  // the thread that runs the call has a span already
        trace_since("loop", calls_[size_t(call)].name, began, true);
    if (code) i.loop->code.store(code, std::memory_order_relaxed);
    in_loop = false;
    note_done();
    i.loop->finished.fetch_add(1, std::memory_order_release);
}

int TaskScheduler::loop(halide_task_t task, int first, int count, uint8_t *closure) {
    if (count <= 1 || in_loop || !running_) {
        for (int i = first; i < first + count; i++)
            if (int code = task(this, i, closure)) return code;
        return 0;
    }
    if (count > Loop::most) {
        if (int code = loop(task, first, Loop::most, closure)) return code;
        return loop(task, first + Loop::most, count - Loop::most, closure);
    }
    Loop &l = loops_[size_t(own_index * most_calls + calls_in - 1)];
    l.open(task, first, count, closure, own_call);
    work_until([&] { return l.finished.load(std::memory_order_acquire) >= count; });
    return l.code.load(std::memory_order_relaxed);
}

}  // namespace cryolite
