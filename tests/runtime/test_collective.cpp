// What workers that are threads do together: the protocol, the order of additions, failures.

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/sum.h"
#include "runtime/device/cpu/task_scheduler.h"
#include "runtime/exec/worker_threads.h"
#include "tests/runtime/scratch.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace cryolite::test {

TEST_CASE("a sum is the tree of all shares, in the place of its owner") {
    for (int workers : {2, 3, 5, 8}) {
        const size_t n = 10'007;
        auto ends = local_collectives(workers);
        std::vector<std::vector<float>> shares;
        for (int w = 0; w < workers; w++) {
            shares.emplace_back(n);
            for (size_t i = 0; i < n; i++)
                shares.back()[i] =
                    std::sin(float(i * 7 + size_t(w) * 13)) * std::pow(10.0f, float((i + size_t(w)) % 7));
        }
        const auto before = shares;
        const int owner = workers - 1;
        for (int w = 0; w < workers; w++) CHECK(ends[size_t(w)]->declare(owner, shares[size_t(w)], {}) == 0);
        for (int w = workers - 1; w >= 0; w--) ends[size_t(w)]->offer(0);
        REQUIRE(ends[size_t(owner)]->offered(0));
        CHECK_FALSE(ends[0]->published(0));
        add_in_tree(shares[size_t(owner)].data(), ends[size_t(owner)]->shares(0), n, nullptr);
        ends[size_t(owner)]->publish(0);
        CHECK(ends[0]->published(0));
        for (size_t i = 0; i < n; i++) {
            const std::function<float(int, int)> sum = [&](int first, int count) {
                const int half = count / 2;
                return count == 1 ? before[size_t(first)][i] : sum(first, half) + sum(first + half, count - half);
            };
            REQUIRE(shares[size_t(owner)][i] == sum(0, workers));
        }
        CHECK(shares[0] == before[0]);
    }
}

TEST_CASE("schedulers of several workers add and read in many runs: each sees the whole sum of its own run") {
    static constexpr int workers = 3, sums = 5, runs = 40;
    static constexpr size_t n = 5000;  // two loops' iterations to a sum
    auto ends = local_collectives(workers);
    WorkerThreads worker_threads(workers);
    std::vector<std::unique_ptr<TaskScheduler>> schedulers;
    std::vector<std::vector<std::vector<float>>> shares(workers,
                                                        std::vector<std::vector<float>>(sums, std::vector<float>(n)));
    std::vector<float> results[sums];
    for (auto &r : results) r.resize(n);
    for (int w = 0; w < workers; w++) {
        schedulers.push_back(std::make_unique<TaskScheduler>(2));
        for (int s = 0; s < sums; s++) ends[size_t(w)]->declare(s % workers, shares[size_t(w)][size_t(s)], {});
    }
    std::atomic<int> wrong{0};
    for (int run = 1; run <= runs; run++)
        worker_threads.run([&](int w) {
            // By sum: make the share, offer it; the owner adds and publishes; all read the result.
            struct Part {
                std::function<void()> work;
                static int call(void **argv) { return static_cast<Part *>(argv[0])->work(), 0; }
            };
            std::deque<Part> parts;
            std::deque<void *> argv;
            std::vector<KernelCall> calls;
            HostCollective &end = *ends[size_t(w)];
            TaskScheduler &scheduler = *schedulers[size_t(w)];
            auto add = [&](std::function<void()> work, int after, std::function<Gate()> gate = {}) {
                argv.push_back(&parts.emplace_back(Part{std::move(work)}));
                calls.push_back({Part::call, &argv.back(), after >= 0, {}, std::move(gate)});
                if (after >= 0) calls[size_t(after)].next.push_back(int(calls.size()) - 1);
                return int(calls.size()) - 1;
            };
            for (int s = 0; s < sums; s++) {
                auto &share = shares[size_t(w)][size_t(s)];
                auto &result = results[size_t(s)];
                int last = add([&share, run, w, s] { std::ranges::fill(share, float(run * (w + 1) + s)); }, -1);
                last = add([&end, s] { end.offer(s); }, last);
                if (s % workers == w) {
                    auto sum = [&end, &scheduler, &result, s] {
                        add_in_tree(result.data(), end.shares(s), n, &scheduler);
                    };
                    last = add(sum, last, [&end, s] { return end.offered(s) ? Gate::open : Gate::closed; });
                    last = add([&end, s] { end.publish(s); }, last);
                }
                auto read = [&result, &wrong, run, s] {
                    const float whole = float(run * (workers * (workers + 1) / 2) + workers * s);
                    if (std::ranges::count(result, whole) != long(n)) wrong++;
                };
                add(read, last, [&end, s] { return end.published(s) ? Gate::open : Gate::closed; });
            }
            if (scheduler.run(calls).call >= 0) wrong++;
        });
    CHECK(wrong == 0);
}

TEST_CASE("an owner waits for the slowest, and every run is a new one") {
    auto ends = local_collectives(3);
    for (auto &e : ends) e->declare(1, {}, {});
    for (int run = 0; run < 3; run++) {
        ends[1]->offer(0), ends[2]->offer(0);
        CHECK_FALSE(ends[1]->offered(0));
        CHECK_FALSE(ends[2]->published(0));
        ends[0]->offer(0);
        CHECK(ends[1]->offered(0));
        ends[1]->publish(0);
        for (auto &e : ends) CHECK(e->published(0));
    }
}

TEST_CASE("workers of one process must declare the same step") {
    auto ends = local_collectives(2);
    ends[0]->declare(0, {}, {});
    CHECK_ERROR(ends[1]->declare(1, {}, {}), "worker 1 runs another step than worker 0");
}

TEST_CASE("worker threads work in rounds, and throw what one of them has met") {
    WorkerThreads worker_threads(3);
    std::vector<int> count(3);
    for (int round = 0; round < 50; round++) worker_threads.run([&](int w) { count[size_t(w)]++; });
    CHECK(count == std::vector<int>{50, 50, 50});
    auto ends = local_collectives(3);
    auto one_fails = [&](int w) {
        if (w == 1) fail("worker 1 met this");
        while (!ends[size_t(w)]->broken()) std::this_thread::yield();
        fail("waited for another worker");
    };
    CHECK_ERROR(worker_threads.run(one_fails, [&] { ends[0]->give_up(); }), "worker 1 met this");
    worker_threads.run([&](int w) { count[size_t(w)]++; });
    CHECK(count[2] == 51);
}

}  // namespace cryolite::test
