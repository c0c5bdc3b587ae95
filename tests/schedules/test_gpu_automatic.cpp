// Halide's autoschedulers for GPUs: loops that compute something else, or not the same each time, or that leave work to
// the host, are refused.

#include <map>

#include "schedules/models/gpt.h"
#include "tests/support/kernels.h"
#include "tests/support/opencl.h"
#include "tests/support/shapes.h"

namespace cryolite::test {

namespace {

/// What came of every distinct kernel of a GPT with the nth automatic loops: their distance from the unscheduled
/// kernel, or why there are none.
std::map<std::string, std::string> tried(int way, Format format) {
    const Compiled<Gpt> c(ragged_gpt(), schedule_gpt, {}, format, opencl);
    const std::vector<KernelId> list = distinct_kernels(c);
    share_jit_runtime();
    std::map<std::string, std::string> results;
    run_children(
        int(list.size()), 2, 120,
        [&](int i) -> std::string {
            const ir::Kernel &k = c.program.kernels[list[size_t(i)]];
            BuiltKernel built = build_kernel(c.program, k, c.machine, {.scheduled = false});
            if (built.group.in_place) return "in place";
            built.automatic_keys.resize(size_t(way) + 1, "key");
            apply_automatic(built, c.step, c.machine, way);
            KernelTrial trial(c.program, k, built, c.machine, false);
            const std::string got = trial.run();
            if (got != trial.run(Inputs::random, true)) return "not the same when it is run again";
            compile_kernel(built, c.machine, "/dev/null");
            return fmt::format("{}", distance(built, KernelTrial::unscheduled(c.program, k, c.machine).run(), got));
        },
        [&](int i, const ChildResult &r) {
            results[fmt::format("{} {}", i, c.program.kernels[list[size_t(i)]].name)] =
                r.error.empty() ? r.output : r.error;
        });
    return results;
}

/// Checks every result, and returns how many kernels have such loops, and how many were refused for their order.
std::pair<int, int> check_all(int way, Format format) {
    int right = 0, order = 0;
    for (const auto &[kernel, result] : tried(way, format)) {
        INFO(kernel, ": ", result);
        CHECK(!result.empty());
        CHECK(result != "not the same when it is run again");
        order += result.find("in an order that changes from run to run") != std::string::npos;
        if (result.find_first_not_of("0123456789.e-") != std::string::npos) continue;
        right++;
        CHECK(std::atof(result.c_str()) < (format == fp32 ? 3e-5 : 4e-3));
    }
    return {right, order};
}

}  // namespace

TEST_CASE("gpu automatic: kernels of a GPT by each autoscheduler are right, or refused with the reason") {
    if (!opencl_is_here()) return;
    CHECK(check_all(0, fp32).first >= 20);
    const auto [right, order] = check_all(1, fp32);
    CHECK(right >= 3);
    CHECK(order > 0);
}

TEST_CASE("gpu automatic: in bf16, which the device stores as words") {
    if (!opencl_is_here()) return;
    CHECK(check_all(0, bf16).first >= 20);
}

}  // namespace cryolite::test
