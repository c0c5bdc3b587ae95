// Kernels that a search times, here functions: what is wrong is refused whatever its time.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "apps/cryolite/tune/measure/measure.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"
#include "tests/runtime/hanging_device.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

constexpr int n = 64;

/// y(i) = 2 x(i), a task an element.
Plan plan() {
    Plan p;
    p.buffers = {{.name = "x", .role = Role::activation, .type = "float32", .shape = {n}, .bytes = 4 * n},
                 {.name = "y", .role = Role::activation, .type = "float32", .shape = {n}, .bytes = 4 * n}};
    p.kernels = {{.symbol = "twice", .args = {{"float32", {n}, false}, {"float32", {n}, true}}}};
    p.plans["forward"] = {{.kernel = 0, .name = "twice", .args = {{0, 0}, {1, 0}}}};
    return p;
}

struct Arrays {
    float *x, *y;
    explicit Arrays(void **argv)
        : x(reinterpret_cast<float *>(static_cast<halide_buffer_t *>(argv[1])->host)),
          y(reinterpret_cast<float *>(static_cast<halide_buffer_t *>(argv[2])->host)) {}
};

using Task = int (*)(void *, int, uint8_t *);
int loop(void **argv, Task task) {
    Arrays a(argv);
    return halide_do_par_for(*static_cast<void **>(argv[0]), task, 0, n, reinterpret_cast<uint8_t *>(&a));
}
Arrays &arrays(uint8_t *closure) { return *reinterpret_cast<Arrays *>(closure); }

int twice(void **argv) {
    return loop(argv, [](void *, int i, uint8_t *c) { return arrays(c).y[i] = 2 * arrays(c).x[i], 0; });
}
int by_adding(void **argv) {  // another order of additions, say
    return loop(argv, [](void *, int i, uint8_t *c) {
        const float x = arrays(c).x[i];
        return arrays(c).y[i] = std::nextafter(x + x, 9.0f), 0;
    });
}
int shifted(void **argv) {
    return loop(argv, [](void *, int i, uint8_t *c) { return arrays(c).y[i] = 2 * arrays(c).x[(i + 1) % n], 0; });
}
int wrong_tail(void **argv) {
    return loop(argv, [](void *, int i, uint8_t *c) { return i < n - 1 ? arrays(c).y[i] = 2 * arrays(c).x[i] : 0, 0; });
}
int racing(void **argv) {  // each iteration writes the next one's element, too
    return loop(argv, [](void *, int i, uint8_t *c) {
        if (i + 1 < n) arrays(c).y[i + 1] = 0;
        return arrays(c).y[i] = 2 * arrays(c).x[i], 0;
    });
}
int beyond(void **argv) {
    return loop(argv,
                [](void *, int i, uint8_t *c) { return arrays(c).y[i + 1] = arrays(c).y[i] = 2 * arrays(c).x[i], 0; });
}
int between(void **argv) {  // it expects that one of its two neighbours was there before it, and one not
    return loop(argv, [](void *, int i, uint8_t *c) {
        const auto done = [&](int k) { return arrays(c).y[k] == 2 * arrays(c).x[k]; };
        const bool right = i == 0 || i == n - 1 || done(i - 1) != done(i + 1);
        return arrays(c).y[i] = (right ? 2 : 3) * arrays(c).x[i], 0;
    });
}
std::atomic<int> calls{0};
int sometimes(void **argv) {
    if (++calls > 6) return shifted(argv);
    return twice(argv);
}
int not_finite(void **argv) {
    return loop(argv, [](void *, int i, uint8_t *c) { return arrays(c).y[i] = i ? 2 * arrays(c).x[i] : NAN, 0; });
}
int failing(void **) { return -7; }

/// Kernels that are wrong by `amount`, in one of these ways.
struct Mutant {
    const char *what;
    Task task;
};
int amount = 0;
constexpr Mutant mutants[] = {
    {"shifted index", [](void *, int i, uint8_t *c) { return arrays(c).y[i] = 2 * arrays(c).x[(i + amount) % n], 0; }},
    {"wrong tail",
     [](void *, int i, uint8_t *c) { return i < n - amount ? arrays(c).y[i] = 2 * arrays(c).x[i] : 0, 0; }},
    {"dropped term",
     [](void *, int i, uint8_t *c) { return arrays(c).y[i] = (i == amount ? 1.0f : 2.0f) * arrays(c).x[i], 0; }},
    {"overlap",  // each iteration writes a range, which the next ones' begin in
     [](void *, int i, uint8_t *c) {
         for (int k = i; k <= std::min(i + amount, n - 1); k++) arrays(c).y[k] = 2 * arrays(c).x[i];
         return 0;
     }},
    {"off-by-one store", [](void *, int i, uint8_t *c) { return arrays(c).y[i + amount] = 2 * arrays(c).x[i], 0; }},
    {"store before the array",
     [](void *, int i, uint8_t *c) { return arrays(c).y[i - amount] = 2 * arrays(c).x[i], 0; }},
    {"race to write",  // another iteration's element, which is right afterwards where that one comes later
     [](void *, int i, uint8_t *c) {
         if (i + amount < n) arrays(c).y[i + amount] = 0;
         return arrays(c).y[i] = 2 * arrays(c).x[i], 0;
     }},
    {"race to read",  // what another iteration writes
     [](void *, int i, uint8_t *c) {
         const float other = i >= amount ? arrays(c).y[i - amount] - 2 * arrays(c).x[i - amount] : 0;
         return arrays(c).y[i] = 2 * arrays(c).x[i] + other, 0;
     }},
    {"right, and outside",
     [](void *, int i, uint8_t *c) {
         if (i == 0) arrays(c).y[n - 1 + amount] = arrays(c).y[-amount] = 1;
         return arrays(c).y[i] = 2 * arrays(c).x[i], 0;
     }},
};
const Mutant *mutant = nullptr;
int mutated(void **argv) { return loop(argv, mutant->task); }

/// A device that is no CPU: loops run in no order that a search could choose.
struct OtherDevice : HangingDevice {
    OtherDevice() : HangingDevice(make_cpu_device(2), -1) {}
    std::string name() const override { return "other"; }
    void *host_address(const halide_buffer_t &) const override { return nullptr; }
};

std::string why_not(
    Bundle::Function candidate, Timing *timing = nullptr,
    const std::function<std::unique_ptr<Device>()> &make = [] { return make_cpu_device(2); }) {
    const Plan p = plan();
    const std::unique_ptr<Device> device = make();
    KernelRun run(p, "twice", *device);
    try {
        const Timing t = compare_kernels(run, twice, candidate, *device, 0.01);
        if (timing) *timing = t;
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("candidates: one with the same bits, and one that adds otherwise") {
    Timing t;
    CHECK(why_not(twice, &t) == "");
    CHECK(t.same_bits);
    CHECK((t.busy || (t.before > 0 && t.after > 0)));
    CHECK(why_not(by_adding, &t) == "");
    CHECK(!t.same_bits);
}

TEST_CASE("candidates: what computes something else is refused") {
    CHECK(why_not(shifted).starts_with("its result is off by"));
    CHECK(why_not(wrong_tail) != "");
    CHECK(why_not(racing) == "its result depends on the order of its parallel iterations");
    CHECK(why_not(between) == "its result depends on the order of its parallel iterations");
    CHECK(why_not(beyond) != "");
    CHECK(why_not(not_finite).starts_with("its result is off by inf"));
    CHECK(why_not(failing).starts_with("it fails with code -7"));
    calls = 0;
    CHECK(why_not(sometimes) != "");
}

TEST_CASE("candidates: 180 mutants, none of which is accepted") {
    for (const Mutant &m : mutants)
        for (amount = 1; amount <= 20; amount++) {
            mutant = &m;
            INFO(m.what, " by ", amount);
            const std::string why = why_not(mutated);
            CHECK(why != "");
            if (std::string(m.what) == "right, and outside") CHECK(why == "it writes outside of the array of y");
            if (std::string(m.what).starts_with("race"))
                CHECK(why == "its result depends on the order of its parallel iterations");
        }
}

TEST_CASE("candidates: on another device than the CPU, results and what is around them decide") {
    const auto on_other = [](Bundle::Function f, Timing *t = nullptr) {
        return why_not(f, t, [] { return std::make_unique<OtherDevice>(); });
    };
    Timing t;
    CHECK(on_other(twice, &t) == "");
    CHECK(t.same_bits);
    CHECK(on_other(by_adding, &t) == "");
    CHECK(!t.same_bits);
    CHECK(on_other(shifted).starts_with("its result is off by"));
    CHECK(on_other(wrong_tail) != "");
    CHECK(on_other(beyond) == "it writes outside of the array of y");
    CHECK(on_other(failing).starts_with("it fails with code -7"));
    calls = 0;
    CHECK(on_other(sometimes) != "");
}

TEST_CASE("candidates: a step whose losses are not finite is infinitely far from the shipped one") {
    using Losses = std::vector<double>;
    const double nan = std::nan("");
    CHECK(relative_difference(Losses{4, 2, 0}, Losses{4, 2, 0}) == 0);
    CHECK(relative_difference(Losses{4, -2, 1}, Losses{4, -1, 1}) == 0.5);
    CHECK(std::isinf(relative_difference(Losses{4, 2, 1}, Losses{4, nan, 1})));
    CHECK(std::isinf(relative_difference(Losses{nan, 2, 1}, Losses{nan, 2, 1})));
    CHECK(std::isinf(relative_difference(Losses{0, 2, 1}, Losses{1, 2, 1})));
}

}  // namespace cryolite::test
