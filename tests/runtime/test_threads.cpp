#include "runtime/data/loader.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/exec/peak.h"
#include "runtime/exec/worker_threads.h"
#include "runtime/system/rng.h"
#include "tests/runtime/scratch.h"

#include <omp.h>
#include <sys/resource.h>

namespace cryolite::test {

namespace {

struct Zeros : BatchSource {
    void allocate(Batch &batch) const override { batch.tokens.resize(1); }
    void fill(uint64_t, Batch &batch) override { batch.tokens[0] = 0; }
};

/// In a process that may have no thread more, `action` must say so by name.
template <typename Action> int refused_by_name(const char *what, Action &&action) {
    return in_child([&] {
        const struct rlimit one = {1, 1};
        if (setrlimit(RLIMIT_NPROC, &one) != 0) fail("setrlimit");
        if (geteuid() == 0 && setuid(65534) != 0) fail("setuid");  // the limit is none of root's
        const std::string message = error_of(action);
        if (!contains(message, what) || !contains(message, "ulimit -u")) fail("wrong message: {}", message);
    });
}

}  // namespace

TEST_CASE("threads: where the system gives no more, the message says what for and what helps") {
    measure_fma_peak(2, 0.001);  // this process has threads of OpenMP, which its children have not
    CHECK(refused_by_name("the data's loader", [] { Loader loader(std::make_unique<Zeros>(), 0, 1); }) == 0);
    CHECK(refused_by_name("worker 0 of 2", [] { WorkerThreads worker_threads(2); }) == 0);
    CHECK(refused_by_name("a parallel loop", [] { measure_fma_peak(2, 0.001); }) == 0);
    CHECK(refused_by_name("a parallel loop", [] {
              std::vector<float> many(1 << 20);
              if (omp_get_max_threads() < 2) omp_set_num_threads(2);
              fill_normal(many, Rng(1, "test"), 0, 1);
          }) == 0);
    CHECK(refused_by_name("a parallel loop", [] { measure_bandwidth(2, 0.001); }) == 0);
    CHECK(refused_by_name("a parallel loop", [] {
              KernelCall call;
              call.function = [](void **) { return 0; };
              make_cpu_device(2)->run({&call, 1});
          }) == 0);
}

}  // namespace cryolite::test
