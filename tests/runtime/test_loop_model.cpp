// Claiming iterations of a loop, in every order that the memory model of C++ allows: what runs on Arm, too.

#include <doctest/doctest.h>

#include <array>

#include "runtime/device/cpu/loop.h"
#include "tests/runtime/memory_model.h"

namespace cryolite::test {

namespace {

/// As Modelled, but the fields of a loop, all but its ticket, have no order: as on x86 it did no harm.
template <class T> struct Careless : Modelled<T> {
    using Modelled<T>::Modelled;
    static std::memory_order order(std::memory_order o) {
        return std::is_same_v<T, uint64_t> ? o : std::memory_order_relaxed;
    }
    T load(std::memory_order o) const { return Modelled<T>::load(order(o)); }
    void store(T value, std::memory_order o) { Modelled<T>::store(value, order(o)); }
};

// Two loops: which function, which closure and which indices belong together.
int task_of_first(void *, int, uint8_t *) { return 0; }
int task_of_second(void *, int, uint8_t *) { return 1; }
uint8_t closures[2];

struct Outcome {
    uint64_t orders = 0, claims = 0, faults = 0;
};

/// One thread opens a loop of one iteration, and when that has ended one of two; another claims twice meanwhile.
template <template <class> class Atomic> Outcome claim_in_every_order(int switches) {
    Outcome outcome;
    using Tried = BasicLoop<Atomic>;
    std::unique_ptr<Tried> loop;
    std::array<int, 3> runs;
    auto claim = [&](bool from_end) {
        const typename Tried::Claim c = loop->claim(from_end);
        if (!c.task) return;
        outcome.claims++;
        const int which = c.task == task_of_second;
        const bool fits = c.closure == &closures[which] && (which ? c.index == 20 || c.index == 21 : c.index == 10);
        if (!fits || ++runs[size_t(which ? c.index - 19 : 0)] > 1) outcome.faults++;
        loop->finished.fetch_add(1, std::memory_order_release);
    };
    outcome.orders = MemoryModel::explore(switches, [&] {
        runs.fill(0);
        loop = std::make_unique<Tried>();
        return std::vector<std::function<void()>>{
            [&] {
                loop->open(task_of_first, 10, 1, &closures[0], 0);
                claim(false);
                MemoryModel::assume(loop->finished.load(std::memory_order_acquire) == 1);
                loop->open(task_of_second, 20, 2, &closures[1], 1);
                claim(false);
            },
            [&] { claim(true), claim(true); },
        };
    });
    return outcome;
}

}  // namespace

TEST_CASE("the model lets a thread see a flag without the data that was stored before, unless they are ordered") {
    for (bool ordered : {false, true}) {
        bool stale = false;
        MemoryModel::explore(2, [&] {
            auto data = std::make_shared<Modelled<int>>(0), flag = std::make_shared<Modelled<int>>(0);
            return std::vector<std::function<void()>>{
                [=] {
                    data->store(1, std::memory_order_relaxed);
                    flag->store(1, ordered ? std::memory_order_release : std::memory_order_relaxed);
                },
                [=, &stale] {
                    if (flag->load(std::memory_order_acquire) == 1) stale |= data->load(std::memory_order_relaxed) == 0;
                },
            };
        });
        CHECK(stale == !ordered);
    }
}

TEST_CASE("an iteration is claimed once, with the fields of its own loop, in every order of the memory model") {
    const Outcome outcome = claim_in_every_order<Modelled>(1);  // 2: 1.7 million orders, and no fault either
    CAPTURE(outcome.orders);
    CHECK(outcome.claims > 1000);
    CHECK(outcome.faults == 0);
}

TEST_CASE("fields without an order let an iteration be claimed with those of another loop: the model finds it") {
    CHECK(claim_in_every_order<Careless>(0).faults > 0);
}

}  // namespace cryolite::test
