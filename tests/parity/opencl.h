#pragma once
// What the tests of --device opencl share.

#include "runtime/device/opencl/opencl_api.h"
#include "tests/parity/case.h"

namespace cryolite::test {

/// Whether OpenCL is here; where it is not, the line that ctest takes for "skipped".
inline bool opencl_is_here() {
    try {
        OpenClApi::load();
        return true;
    } catch (const Error &e) {
        MESSAGE("skipped: " << e.what());
        return false;
    }
}

/// The losses of some steps.
inline std::vector<double> losses_on(const std::string &device, const json &args, const std::string &flags, int steps) {
    TrainingCase c(args, flags, device);
    std::vector<double> losses;
    for (int s = 0; s < steps; s++) losses.push_back(c.step());
    return losses;
}

/// Losses on OpenCL are those of the CPU.
inline void check_losses(const json &args, const std::string &flags, int steps, double tolerance = 1e-4) {
    const std::vector<double> cpu = losses_on("cpu", args, flags, steps),
                              opencl = losses_on("opencl", args, flags, steps);
    double worst = 0;
    for (int s = 0; s < steps; s++) {
        CAPTURE(s);
        CAPTURE(flags);
        CAPTURE(args.dump());
        REQUIRE(std::isfinite(opencl[size_t(s)]));
        worst = std::max(worst, std::abs(opencl[size_t(s)] - cpu[size_t(s)]));
        CHECK(std::abs(opencl[size_t(s)] - cpu[size_t(s)]) <= tolerance);
    }
    CHECK(cpu.front() != cpu.back());
    MESSAGE("losses of " << steps << " steps differ by " << worst << " at most: " << args.dump() << " " << flags);
}

}  // namespace cryolite::test
