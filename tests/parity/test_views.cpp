// Reshapes and slices that are views train as those that are copies, to the bit, with fewer kernels and bytes:
// tests/programs/views.cpp.

#include "tests/parity/views_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

void check_equal(const std::string &flags, int accumulate = 1, int workers = 1) {
    CAPTURE(flags);
    ViewsCase views(1, flags, workers), copies(2, flags, workers);
    for (const char *entry : {"forward", "step"}) {
        CAPTURE(entry);
        CHECK(views.kernels(entry) < copies.kernels(entry));
        CHECK(views.bytes(entry) < copies.bytes(entry));
    }
    const std::vector<double> losses = views.losses(5, accumulate);
    CHECK(losses == copies.losses(5, accumulate));
    CHECK(losses[4] != losses[0]);
}

}  // namespace

TEST_CASE("views: training and evaluation have the bits of copies, with fewer kernels, bytes and memory") {
    check_equal("");
    ViewsCase views(1), copies(2);
    CHECK(views.stages("reshape") == 0);
    CHECK(views.stages("slice") == 1);  // along an inner dimension
    CHECK(copies.stages("reshape") == 4);
    CHECK(copies.stages("slice") == 3);
    CHECK(copies.kernels("forward") - views.kernels("forward") == 6);
    CHECK(views.plan().arena < copies.plan().arena);
    const std::vector<double> losses = views.losses(20);
    CHECK(losses[19] < 0.95 * losses[0]);
}

TEST_CASE("views: the same in 16 bits, over micro-batches, workers and with updates beside their gradients" * slow()) {
    check_equal("--precision bf16");
    check_equal("--accumulate --update separate", 3);
    check_equal("--update backward", 1, 2);
    check_equal("--clip");
}

TEST_CASE("views: the same within a budget, which takes a value with its views" * slow()) {
    ViewsCase whole(1, "--update separate");
    int64_t kept = 0;
    for (const PlanBuffer &b : whole.plan().buffers)
        if (b.stored && !b.in_arena()) kept += b.bytes;
    const std::string budget = fmt::format("--update separate --budget {}", kept + whole.plan().arena * 9 / 10);
    ViewsCase tight(1, budget);
    CHECK(tight.plan().arena < whole.plan().arena);
    CHECK(tight.losses(5) == whole.losses(5));
}

TEST_CASE("views: on CUDA's streams they have the CPU's bits, with its kernels") {
    const UseRecorder use;
    ViewsCase cpu(1), cuda(1, "", 1, "recorder");
    CHECK(cuda.losses(5) == cpu.losses(5));
    CHECK(use.recorder.count("cuGraphLaunch") > 0);
}

}  // namespace cryolite::test
