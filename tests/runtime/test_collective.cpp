// What workers that are threads do together: the protocol, the order of additions, failures.

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/sum.h"
#include "runtime/crew.h"
#include "tests/runtime/scratch.h"

#include <cmath>

namespace cryolite::test {

TEST_CASE("a sum is that of all shares in the order of the workers, in the place of its owner") {
    for (int workers : {2, 3, 5}) {
        const size_t n = 10'007;
        auto ends = local_collectives(workers);
        std::vector<std::vector<float>> shares;
        for (int w = 0; w < workers; w++) {
            shares.emplace_back(n);
            for (size_t i = 0; i < n; i++) shares.back()[i] = std::sin(float(i * 7 + size_t(w) * 13)) * std::pow(10.0f, float((i + size_t(w)) % 7));
        }
        const auto before = shares;
        const int owner = workers - 1;
        for (int w = 0; w < workers; w++) CHECK(ends[size_t(w)]->declare(owner, shares[size_t(w)], {}) == 0);
        for (int w = workers - 1; w >= 0; w--) ends[size_t(w)]->offer(0);
        REQUIRE(ends[size_t(owner)]->offered(0));
        CHECK_FALSE(ends[0]->published(0));
        add_in_order(shares[size_t(owner)].data(), ends[size_t(owner)]->shares(0), n, nullptr);
        ends[size_t(owner)]->publish(0);
        CHECK(ends[0]->published(0));
        for (size_t i = 0; i < n; i++) {
            float sum = before[0][i];
            for (int w = 1; w < workers; w++) sum += before[size_t(w)][i];
            REQUIRE(shares[size_t(owner)][i] == sum);
        }
        CHECK(shares[0] == before[0]);
    }
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
    CHECK_ERROR(ends[1]->declare(1, {}, {}), "worker 1 declares another step than worker 0");
}

TEST_CASE("a crew works in rounds, and throws what one of it has met") {
    Crew crew(3);
    std::vector<int> count(3);
    for (int round = 0; round < 50; round++) crew.run([&](int w) { count[size_t(w)]++; });
    CHECK(count == std::vector<int>{50, 50, 50});
    auto ends = local_collectives(3);
    auto one_fails = [&](int w) {
        if (w == 1) fail("worker 1 met this");
        while (!ends[size_t(w)]->broken()) std::this_thread::yield();
        fail("waited for another worker");
    };
    CHECK_ERROR(crew.run(one_fails, [&] { ends[0]->give_up(); }), "worker 1 met this");
    crew.run([&](int w) { count[size_t(w)]++; });
    CHECK(count[2] == 51);
}

}  // namespace cryolite::test
