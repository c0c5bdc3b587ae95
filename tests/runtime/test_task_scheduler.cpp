// The scheduler that runs calls: order, loops, failures.

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/device/cpu/task_scheduler.h"

namespace cryolite::test {

namespace {

/// Calls that note when they ran; each has a loop of `loop` iterations.
struct Calls {
    struct Argument {
        Calls *all;
        int index;
    };
    TaskScheduler scheduler;
    std::vector<KernelCall> calls;
    std::vector<Argument> arguments;
    std::vector<std::vector<void *>> argv;
    std::vector<std::atomic<int>> iterations, begun, ended;
    std::atomic<int> clock{0};
    int loop = 16, failing = -1;

    Calls(int threads, int n) : scheduler(threads), iterations(size_t(n)), begun(size_t(n)), ended(size_t(n)) {
        arguments.resize(size_t(n)), argv.resize(size_t(n)), calls.resize(size_t(n));
        for (int i = 0; i < n; i++) {
            arguments[size_t(i)] = {this, i};
            argv[size_t(i)] = {&arguments[size_t(i)]};
            calls[size_t(i)].function = run_one;
            calls[size_t(i)].argv = argv[size_t(i)].data();
        }
    }
    void needs(int later, int earlier) {
        calls[size_t(earlier)].next.push_back(later);
        calls[size_t(later)].waits++;
    }
    static int run_one(void **argv) {
        auto *a = static_cast<Argument *>(argv[0]);
        Calls &c = *a->all;
        c.begun[size_t(a->index)] = c.clock++;
        int code = c.scheduler.loop(iterate, 0, c.loop, reinterpret_cast<uint8_t *>(a));
        c.ended[size_t(a->index)] = c.clock++;
        return code;
    }
    static int iterate(void *, int i, uint8_t *closure) {
        auto *a = reinterpret_cast<Argument *>(closure);
        a->all->iterations[size_t(a->index)]++;
        if (i % 3 == 0) std::this_thread::yield();
        // A loop inside a loop runs here.
        int inner = a->all->scheduler.loop([](void *, int, uint8_t *) { return 0; }, 0, 4, nullptr);
        return a->index == a->all->failing && i == 5 ? -7 : inner;
    }
};

}  // namespace

TEST_CASE("every call runs once, all of its iterations once, after what it waits for") {
    for (int threads : {1, 2, 3, 5}) {
        Calls c(threads, 60);
        for (int i = 1; i < 60; i++) {
            if (i % 3) c.needs(i, i - 1);
            if (i >= 10 && i % 4 == 0) c.needs(i, i - 10);
        }
        for (int round = 0; round < 20; round++) {
            for (auto &n : c.iterations) n = 0;
            CallFailure failure = c.scheduler.run(c.calls);
            CHECK(failure.call == -1);
            for (auto &n : c.iterations) CHECK(n == c.loop);
            for (size_t i = 0; i < c.calls.size(); i++)
                for (int later : c.calls[i].next) CHECK(c.ended[i] < c.begun[size_t(later)]);
        }
    }
}

namespace {

/// A call with one loop of `count` iterations, each of which notes how often, and by which thread, it ran.
struct Marks {
    TaskScheduler scheduler;
    int first, count;
    std::vector<std::atomic<uint8_t>> times;
    std::vector<int> by;

    Marks(int threads, int first, int count)
        : scheduler(threads), first(first), count(count), times(size_t(count)), by(size_t(count)) {}
    CallFailure run() {
        std::vector<void *> argv = {this};
        std::vector<KernelCall> calls(1);
        calls[0].function = [](void **argv) {
            auto *m = static_cast<Marks *>(argv[0]);
            return m->scheduler.loop(mark, m->first, m->count, reinterpret_cast<uint8_t *>(m));
        };
        calls[0].argv = argv.data();
        return scheduler.run(calls);
    }
    static int mark(void *, int i, uint8_t *closure) {
        auto *m = reinterpret_cast<Marks *>(closure);
        m->times[size_t(i - m->first)]++;
        m->by[size_t(i - m->first)] = scheduler_thread();
        if (m->count < 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return 0;
    }
};

}  // namespace

TEST_CASE("every index of a loop runs once, of a short one and of one longer than a ticket counts") {
    for (int threads : {1, 2, 5})
        for (int count : {2, 3, 17, 2'100'001}) {
            CAPTURE(threads);
            CAPTURE(count);
            Marks m(threads, 7, count);
            CHECK(m.run().call == -1);
            CHECK(std::ranges::all_of(m.times, [](const auto &n) { return n == 1; }));
        }
}

TEST_CASE("half of the threads come from a loop's begin, the others from its end") {
    for (int threads : {2, 4}) {
        Marks m(threads, 0, 64);
        CHECK(m.run().call == -1);
        const auto low = [&](int t) { return 2 * t < threads; };
        CHECK(std::ranges::is_partitioned(m.by, low));
        CHECK(std::ranges::any_of(m.by, low));
        CHECK_FALSE(std::ranges::all_of(m.by, low));
    }
}

TEST_CASE("a call that fails ends the run with its code, and those that wait for it do not begin") {
    for (int threads : {1, 2, 4}) {
        Calls c(threads, 6);
        for (int i = 1; i < 6; i++) c.needs(i, i - 1);
        c.failing = 2;
        CallFailure failure = c.scheduler.run(c.calls);
        CHECK(failure.call == 2);
        CHECK(failure.code == -7);
        CHECK(c.iterations[3] == 0);
        c.failing = -1;  // the scheduler can be used again
        CHECK(c.scheduler.run(c.calls).call == -1);
    }
}

TEST_CASE("kernels that fail at once leave the whole message of one of them") {
    static constexpr int iterations = 64, longer = 100;  // the message grows with the iteration, so memory for it moves
    for (int round = 0; round < 300; round++) {
        TaskScheduler scheduler(4);
        static constexpr auto fail = [](void *scheduler, int i, uint8_t *) {
            static_cast<TaskScheduler *>(scheduler)->note_error(
                std::string(size_t(1 + longer * i), char('0' + i)).c_str());
            return -1;
        };
        std::vector<void *> argv = {&scheduler};
        auto run = [](void **argv) {
            return static_cast<TaskScheduler *>(argv[0])->loop(fail, 0, iterations, nullptr);
        };
        KernelCall call{run, argv.data()};
        CHECK(scheduler.run({&call, 1}).code == -1);
        const std::string said = scheduler.error();
        REQUIRE(!said.empty());
        CHECK(said == std::string(size_t(1 + longer * (said[0] - '0')), said[0]));
    }
}

TEST_CASE("a call whose gate is closed is passed over until it opens; those that wait for it come after") {
    for (int threads : {1, 2, 3}) {
        Calls c(threads, 6);
        c.needs(2, 1), c.needs(5, 4);
        std::atomic<int> asked{0};
        std::atomic<bool> asking{false};
        c.calls[1].gate = [&] {
            CHECK_FALSE(asking.exchange(true));
            const bool others_are_done = c.ended[0] && c.ended[3] && c.ended[5];
            asked++;
            asking = false;
            return others_are_done ? Gate::open : Gate::closed;
        };
        c.clock = 1;  // 0: not ended
        CHECK(c.scheduler.run(c.calls).call == -1);
        CHECK(asked > 1);
        for (auto &n : c.iterations) CHECK(n == c.loop);
        CHECK(c.begun[1] > c.ended[5]);
        CHECK(c.begun[2] > c.ended[1]);
    }
}

TEST_CASE("a gate that is broken ends the run") {
    for (int threads : {1, 2}) {
        Calls c(threads, 3);
        c.needs(2, 1);
        c.calls[1].gate = [] { return Gate::broken; };
        const CallFailure failure = c.scheduler.run(c.calls);
        CHECK(failure.call == 1);
        CHECK(failure.code == gate_broken);
        CHECK(c.iterations[2] == 0);
    }
}

namespace {

using namespace std::chrono_literals;

/// False after ten seconds.
bool within_ten_seconds(const std::atomic<bool> &flag) {
    for (const auto end = std::chrono::steady_clock::now() + 10s; !flag; std::this_thread::sleep_for(1ms))
        if (std::chrono::steady_clock::now() > end) return false;
    return true;
}

}  // namespace

TEST_CASE("a thread whose loop ends elsewhere begins another call meanwhile") {
    struct Two {
        TaskScheduler scheduler{2};
        int leader = -1;
        std::atomic<bool> elsewhere{false}, other_call_ran{false};
    } two;
    std::vector<void *> argv = {&two};
    std::vector<KernelCall> calls(2, KernelCall{nullptr, argv.data()});
    calls[0].function = [](void **argv) {
        auto *two = static_cast<Two *>(argv[0]);
        two->leader = scheduler_thread();
        auto iterate = [](void *, int, uint8_t *closure) {
            auto *two = reinterpret_cast<Two *>(closure);
            if (scheduler_thread() == two->leader) return within_ten_seconds(two->elsewhere) ? 0 : -1;
            two->elsewhere = true;
            return within_ten_seconds(two->other_call_ran) ? 0 : -2;
        };
        return two->scheduler.loop(iterate, 0, 2, reinterpret_cast<uint8_t *>(two));
    };
    calls[1].function = [](void **argv) {
        static_cast<Two *>(argv[0])->other_call_ran = true;
        return 0;
    };
    calls[1].gate = [&] { return two.elsewhere ? Gate::open : Gate::closed; };
    CHECK(two.scheduler.run(calls).code == 0);
}

TEST_CASE("idle seconds end where an iteration begins") {
    TaskScheduler scheduler(2);
    std::vector<void *> argv = {&scheduler};
    std::vector<KernelCall> calls(1, KernelCall{nullptr, argv.data()});
    calls[0].function = [](void **argv) {
        std::this_thread::sleep_for(50ms);  // the other thread waits
        return static_cast<TaskScheduler *>(argv[0])->loop(
            [](void *, int, uint8_t *) { return std::this_thread::sleep_for(500ms), 0; }, 0, 2, nullptr);
    };
    CHECK(scheduler.run(calls).call == -1);
    CHECK(scheduler.idle_seconds() > .02);
    CHECK(scheduler.idle_seconds() < .4);
}

TEST_CASE("a scheduler's threads stay on the cores that they are given") {
    cpu_set_t all;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    int core = 0;
    while (!CPU_ISSET(core, &all)) core++;
    TaskScheduler scheduler(1, {core});
    cpu_set_t inside;
    struct Asked {
        static int where(void **argv) {
            return sched_getaffinity(0, sizeof(cpu_set_t), static_cast<cpu_set_t *>(argv[0]));
        }
    };
    void *argv[] = {&inside};
    KernelCall call{Asked::where, argv};
    std::thread([&] { CHECK(scheduler.run({&call, 1}).call == -1); }).join();
    CHECK(CPU_COUNT(&inside) == 1);
    CHECK(CPU_ISSET(core, &inside));
}

}  // namespace cryolite::test
