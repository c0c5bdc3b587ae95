// Workers that give no sign of life: who is lost, who is not, and that nobody waits for them for ever.

#include <signal.h>
#include <sys/wait.h>

#include <latch>
#include <thread>

#include "runtime/collective/local/local_collective.h"
#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/exec/worker_threads.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string numbered(int w) { return fmt::format("worker {}", w); }

bool within_ten_seconds(const std::function<bool()> &holds) {
    for (const auto end = Clock::now() + 10s; !holds(); std::this_thread::sleep_for(1ms))
        if (Clock::now() > end) return false;
    return true;
}

}  // namespace

TEST_CASE("a worker without a sign of life is lost when patience ends, and the others are not") {
    std::atomic<int> told{0};
    const auto begin = Clock::now();
    Watch watch({3, [](int w) { return w != 1; }, numbered, [&] { told++; }}, 0.3);
    watch.check();
    REQUIRE(within_ten_seconds([&] { return watch.any_lost(); }));
    CHECK(Clock::now() - begin >= 300ms);
    CHECK(watch.lost(1));
    CHECK_FALSE(watch.lost(0));
    CHECK_FALSE(watch.lost(2));
    CHECK_ERROR(watch.check(), "worker 1 has given no sign of life for 0.3 s (--patience)");
    std::this_thread::sleep_for(100ms);
    CHECK(told == 1);
}

TEST_CASE("a worker owes signs while it is at work only") {
    Signs signs;
    CHECK(signs.given());
    bool works = false;
    signs.works = [&] { return works; };
    signs.at_work = true;
    CHECK_FALSE(signs.given());
    works = true;
    CHECK(signs.given());
}

TEST_CASE("a process that stood still does not take the others for lost") {
    const pid_t child = fork();
    if (child == 0) {
        // The other worker gives its signs from a thread here, which stands still too.
        std::atomic<int> signs{0};
        std::thread other([&] {
            for (;; std::this_thread::sleep_for(5ms)) signs++;
        });
        Watch watch({1, [&](int) { return signs.exchange(0) > 0; }, numbered}, 1);
        std::this_thread::sleep_for(200ms);
        raise(SIGSTOP);
        std::this_thread::sleep_for(500ms);
        _exit(watch.any_lost());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child);
    REQUIRE(WIFSTOPPED(status));
    std::this_thread::sleep_for(1500ms);
    kill(child, SIGCONT);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a scheduler works while calls or iterations end, or while it waits for other workers only") {
    TaskScheduler scheduler(2);
    CHECK_FALSE(scheduler.works());
    std::vector<void *> argv = {&scheduler};
    std::latch go(1);
    std::atomic<bool> open{false};
    std::vector<KernelCall> calls(2, KernelCall{nullptr, argv.data()});
    static std::latch *gate;
    gate = &go;
    calls[0].function = [](void **argv) {
        auto iterate = [](void *, int i, uint8_t *) { return i == 0 ? (gate->wait(), 0) : 0; };
        return static_cast<TaskScheduler *>(argv[0])->loop(iterate, 0, 5, nullptr);
    };
    calls[1].function = [](void **) { return 0; };
    calls[1].gate = [&] { return open ? Gate::open : Gate::closed; };
    std::thread runs([&] { CHECK(scheduler.run(calls).call == -1); });
    // Four iterations end and one hangs: signs, then none, though the other thread goes on asking the gate.
    CHECK(within_ten_seconds([&] { return scheduler.works(); }));
    auto silent = [&] {
        for (int k = 0; k < 20; k++, std::this_thread::sleep_for(5ms))
            if (scheduler.works()) return false;
        return true;
    };
    CHECK(within_ten_seconds(silent));
    go.count_down();  // now it waits for the gate only
    auto waits = [&] {
        for (int k = 0; k < 20; k++, std::this_thread::sleep_for(5ms))
            if (!scheduler.works()) return false;
        return true;
    };
    CHECK(within_ten_seconds(waits));
    open = true;
    runs.join();
}

TEST_CASE("who waits for a worker that hangs learns who it is") {
    auto ends = local_collectives(2, 0.3);
    for (auto &e : ends) e->declare(0, {}, {});
    ends[1]->signs.works = [] { return false; };
    ends[1]->signs.at_work = true;
    TaskScheduler scheduler(2);
    KernelCall wait{[](void **) { return 0; }, nullptr};
    ends[0]->offer(0);
    CHECK(ends[0]->begin_update());
    ends[0]->settle();
    wait.gate = [&] { return ends[0]->offered(0) ? Gate::open : ends[0]->broken() ? Gate::broken : Gate::closed; };
    CHECK(scheduler.run({&wait, 1}).code == gate_broken);
    CHECK_ERROR(ends[0]->watch.check(), "worker 1 has given no sign of life");
    CHECK(ends[0]->settled());
    CHECK_FALSE(ends[0]->begin_update());
    CHECK_FALSE(ends[0]->settled());
}

TEST_CASE("worker threads leave behind who is lost, and throw what the others met") {
    static std::latch end(1);
    static std::atomic<bool> is_lost{false}, ended{false};
    static WorkerThreads *worker_threads = new WorkerThreads(3);  // stays, as its thread may
    std::thread alarms([] {
        std::this_thread::sleep_for(50ms);
        is_lost = true;
        worker_threads->alarm();
    });
    auto work = [](int w) {
        if (w == 0) fail("worker 0 waited for it");
        if (w == 1) end.wait(), ended = true;
    };
    CHECK_ERROR(worker_threads->run(work, {}, [](int w) { return w == 1 && is_lost; }), "worker 0 waited for it");
    CHECK(worker_threads->left_behind());
    alarms.join();
    end.count_down();
    CHECK(within_ten_seconds([] { return ended.load(); }));
}

}  // namespace cryolite::test
