// A kernel that its loops leave to the host is refused, never run there without a word.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

struct Doubled : Pointwise {
    using Pointwise::Pointwise;
    Nature nature() const override { return Nature::rowwise; }
    int rank() const override { return 2; }
    Expr value(Expr x) const override { return 2 * x; }
    Expr slope(Expr x) const override { return cast(x.type(), 2); }
};

struct Small : Classifier {
    Linear head{"head", 5, classes};
    Doubled doubled{"twice"};
    Shape features() const override { return {5}; }
    Tensor forward(Tensor x) override { return doubled(head(x)); }
};

const Halide::Target opencl = test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles});

std::string compiled_with(LoopSchedule loops) {
    char folder[] = "/tmp/cryolite-test-XXXXXX";
    REQUIRE(mkdtemp(folder));
    Compiled<Small> c(
        {},
        [&](Small &, Step &s) {
            if (loops) s.loops<Doubled>(Form::forward, loops);
        },
        {}, fp32, opencl);
    const std::string error = error_of([&] { compile_kernels(c.program, c.machine, {folder, 2, 60, {}}); });
    CHECK(std::system(fmt::format("rm -rf '{}'", folder).c_str()) == 0);
    return error;
}

}  // namespace

TEST_CASE("devices: loops for the host, none at all, and blocks of threads") {
    const std::string parallel = compiled_with([](Group &g, const Machine &) { g.out.parallel(g.out.args()[1]); });
    CAPTURE(parallel);
    CHECK(parallel.find("kernel 'twice': its loops, 'Doubled' of layer Doubled, leave the loop over out.s0.") == 0);
    CHECK(parallel.find("but its data are on the device opencl") != std::string::npos);
    const std::string none = compiled_with([](Group &, const Machine &) {});
    CAPTURE(none);
    CHECK(none.find("kernel 'twice': its loops") == 0);
    CHECK(compiled_with([](Group &g, const Machine &) {
              Halide::Var x = g.out.args()[0], y = g.out.args()[1];
              g.out.gpu_blocks(y).gpu_threads(x);
          }) == "");
    CHECK(compiled_with(nullptr) == "");
}

}  // namespace cryolite::test
