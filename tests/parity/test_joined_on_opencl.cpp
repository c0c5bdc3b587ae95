// Updates of small parameters on OpenCL, which share kernels by themselves, have the bits of updates one by one. With
// clipping their norms are one sum, which is added in another order.

#include "tests/parity/joined.h"
#include "tests/parity/opencl.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// The farthest that two runs are apart, relative to the largest number of an array.
double distance(TrainingCase &a, TrainingCase &b) {
    double worst = 0;
    const auto one = numbers(a), other = numbers(b);
    REQUIRE(one.size() == other.size());
    for (auto &[name, values] : one) {
        double largest = 1e-30, most = 0;
        for (size_t i = 0; i < values.size(); i++) {
            largest = std::max(largest, double(std::abs(values[i])));
            most = std::max(most, std::abs(double(values[i]) - double(other.at(name)[i])));
        }
        worst = std::max(worst, most / largest);
    }
    return worst;
}

}  // namespace

TEST_CASE("joined updates: on OpenCL those of small parameters are, with the bits of updates one by one") {
    if (!opencl_is_here()) return;
    TrainingCase joined(odd_sizes, "--update separate", "opencl"),
        single(odd_sizes, "--update separate" + apart, "opencl");
    CHECK(updates(single) == 28);
    CHECK(updates(joined) == 2);  // with decay, and without
    check_bits(odd_sizes, "--update separate", "", apart, "opencl");
}

TEST_CASE("joined updates: on OpenCL in 16 bits, over micro-batches, with groups and beside other updates" * slow()) {
    if (!opencl_is_here()) return;
    check_bits(odd_sizes, "--update separate --precision bf16", "", apart, "opencl");
    check_bits(odd_sizes, "--update separate --precision fp16", "", apart, "opencl");
    check_bits(odd_sizes, "--update separate --param-group 'h.*.bias=lr:0.5x' --freeze 'h.0.ln_1.*'", "", apart,
               "opencl");
    check_bits(odd_sizes, "--update separate --optimizer lion", "", apart, "opencl");
    json args = odd_sizes;
    args["accumulate"] = 2;
    check_bits(args, "--update separate", "", apart, "opencl");
}

TEST_CASE("joined updates: with clipping their norms are one sum, in another order") {
    if (!opencl_is_here()) return;
    json args = odd_sizes;
    args["clip"] = 0.3;
    TrainingCase joined(args, "--update separate", "opencl"), single(args, "--update separate" + apart, "opencl");
    auto norms = [](const TrainingCase &c) {
        int n = 0;
        for (const PlanCall &call : c.trainer.plan().plans.at("step")) n += call.name.starts_with("norm(");
        return n;
    };
    CHECK(norms(single) == 28);
    CHECK(norms(joined) == 2);
    CHECK(std::abs(joined.step() - single.step()) <= 1e-6);
    CHECK(distance(joined, single) < 1e-5);
}

}  // namespace cryolite::test
