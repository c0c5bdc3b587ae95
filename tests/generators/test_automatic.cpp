// Kernels whose loops nobody wrote: loops are taken only if they compute what the unscheduled kernel computes.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "dsl/layers/linear.h"
#include "generators/codegen/compare.h"
#include "generators/codegen/kernel_store.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

const Machine machine = Machine::of(test_target());

/// A layer that schedules/ does not know; its gradient is derived.
struct Squares : Layer {
    explicit Squares(const std::string &path, int times = 9) : Layer(path), times(times) {}
    const int times;

    Func forward(Array x) override {
        Func total("total"), y("y");
        RDom k(0, x.extent(0), "k"), again(0, times, "again");
        Var i("i"), r("r");
        total(r) += x(k, r) * x(k, r);
        y(i, r) = 0.0f;
        y(i, r) += sin(x(i, r) + again) / sqrt(total(r) + 0.5f);
        return y;
    }
};

/// One kernel without loops; with `Both`, its gradient is another.
struct Small : Classifier {
    Squares squares{"squares"};
    Linear head{"head", 11, classes};
    Shape features() const override { return {11}; }
    Tensor forward(Tensor x) override { return head(squares(x)); }
};

struct Both : Small {
    Linear up{"up", 11, 11};
    Tensor forward(Tensor x) override { return head(squares(up(x))); }
};

/// One that takes minutes without a schedule, and with one.
struct Endless : Classifier {
    Squares squares{"squares", 1 << 28};
    Linear head{"head", 11, classes};
    Shape features() const override { return {11}; }
    Tensor forward(Tensor x) override { return head(squares(x)); }
};

void race(const AutomaticLoops &, Group &g, Halide::Pipeline &, const Machine &) {
    for (Func &f : g.funcs())
        if (f.has_update_definition())
            f.compute_root().update().allow_race_conditions().vectorize(f.rvars()[0], 4,
                                                                        Halide::TailStrategy::GuardWithIf);
}
void stop(const AutomaticLoops &, Group &, Halide::Pipeline &, const Machine &) { abort(); }
void hang(const AutomaticLoops &, Group &, Halide::Pipeline &, const Machine &) {
    for (;;) usleep(1000);
}
void refuse(const AutomaticLoops &, Group &, Halide::Pipeline &, const Machine &) { fail("no states left"); }

const AutomaticLoops racing{"racing", {}, race}, stopping{"stopping", {}, stop}, hanging{"hanging", {}, hang},
    refusing{"refusing", {}, refuse};

/// A folder for kernels, and what is said on stderr while it is filled.
struct Store {
    char folder[32] = "/tmp/cryolite-test-XXXXXX";
    std::string said;

    Store() { REQUIRE(mkdtemp(folder)); }
    ~Store() { (void)!std::system(("rm -rf " + std::string(folder)).c_str()); }

    template <typename M> CompileReport compile(const Compiled<M> &c, int time_limit = 60) {
        std::string file = std::string(folder) + "/said";
        int before = dup(STDERR_FILENO), to = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        fflush(stderr), dup2(to, STDERR_FILENO), close(to);
        CompileReport report;
        std::string error = error_of([&] {
            report = compile_kernels(c.program, c.machine, {folder, 2, time_limit, {}});
        });
        fflush(stderr), dup2(before, STDERR_FILENO), close(before);
        said = read_whole(file);
        if (!error.empty()) fail("{}", error);
        return report;
    }
    bool says(const std::string &part) const { return said.find(part) != std::string::npos; }
};

AutomaticLoops way(const std::string &name) {
    for (const AutomaticLoops &a : automatic_loops(machine))
        if (a.name == name) return a;
    fail("there are no loops by {}", name);
}

/// The loops that the layer's forward kernel got.
template <typename M> std::string loops_of(const Compiled<M> &c, const CompileReport &r) {
    return r.kernels[size_t(c.kernel("forward", "squares").index)].loops;
}

Compiled<Small> small(std::vector<AutomaticLoops> automatic, const std::string &batch = "5") {
    return Compiled<Small>({{"batch", batch}}, [&](Small &, Step &s) { s.fallback_loops = automatic; });
}

}  // namespace

TEST_CASE("automatic: every one of the built-in ways computes what the unscheduled kernel computes") {
    for (const AutomaticLoops &a : automatic_loops(machine)) {
        CAPTURE(a.name);
        Store store;
        Compiled<Both> c({{"batch", "5"}}, [&](Both &, Step &s) { s.fallback_loops = {a}; });
        CompileReport r = store.compile(c);
        CHECK(loops_of(c, r) == a.name);
        CHECK(r.kernels[size_t(c.kernel("step", "d(up)").index)].loops == a.name);
        CHECK(store.said == "");
    }
}

TEST_CASE("automatic: loops that compute something else are refused, and the next are taken") {
    Store store;
    Compiled<Small> c = small({racing, way("plain loops")});
    CompileReport first = store.compile(c);
    CHECK(loops_of(c, first) == "plain loops");
    CAPTURE(store.said);
    CHECK(store.says("note: kernel 'squares': loops by racing are refused, next is plain loops: its result is off by"));
    // They are remembered: nothing is scheduled or compared again.
    c.step.fallback_loops = {racing, way("plain loops")};
    for (AutomaticLoops &a : c.step.fallback_loops) a.apply = stop;
    CompileReport second = store.compile(c);
    CHECK(second.cached == first.distinct);
    CHECK(loops_of(c, second) == "plain loops");
    CHECK(store.said == "");
}

TEST_CASE("automatic: a scheduler that aborts or refuses is followed by the next") {
    Store store;
    Compiled<Small> c = small({stopping, refusing, way("Mullapudi2016")});
    CHECK(loops_of(c, store.compile(c)) == "Mullapudi2016");
    CAPTURE(store.said);
    CHECK(store.says("loops by stopping are refused, next is refusing: the compiler process died (Aborted)"));
    CHECK(store.says("loops by refusing are refused, next is Mullapudi2016: no states left"));
}

TEST_CASE("automatic: a scheduler that hangs is followed by the next") {
    Store other;
    Compiled<Small> late = small({hanging, way("plain loops")});
    CHECK(loops_of(late, other.compile(late, 8)) == "plain loops");
    CHECK(other.says("loops by hanging are refused, next is plain loops: it took longer than the limit of 8 s"));
}

TEST_CASE("automatic: where none serves, the error names the kernel and every reason") {
    Store store;
    Compiled<Small> c = small({racing, refusing});
    const std::string message = error_of([&] { store.compile(c); });
    CAPTURE(message);
    CHECK(message.starts_with("kernel 'squares': no automatic loop schedule serves it; write one and name it with "
                              "s.loops<Squares>(...)\n  racing: its result is off by"));
    CHECK(message.ends_with("\n  refusing: no states left"));
}

TEST_CASE("automatic: a kernel that is too slow without a schedule is not compared, with a word") {
    Store store;
    Compiled<Endless> c({{"batch", "5"}}, [](Endless &, Step &s) { s.fallback_loops = {way("plain loops")}; });
    CHECK(loops_of(c, store.compile(c, 12)) == "plain loops");
    CAPTURE(store.said);
    CHECK(store.says("note: kernel 'squares': loops by plain loops were not compared with the unscheduled kernel: "
                     "it takes more than 3 s"));
}

TEST_CASE("automatic: keys need no scheduler, and change with the algorithm, the parameters and the target") {
    // One model at a time: the trace asks for every parameter that lives.
    auto key = [](std::vector<AutomaticLoops> automatic, const std::string &batch = "5", bool other_target = false) {
        for (AutomaticLoops &a : automatic) a.apply = stop;
        Compiled<Small> c = small(automatic, batch);
        Halide::Target &t = c.machine.target;
        if (other_target) t.set_feature(Halide::Target::AVX2, !t.has_feature(Halide::Target::AVX2));
        return c.keys()[size_t(c.kernel("forward", "squares").index)];
    };
    AutomaticLoops a = way("Adams2019");
    const std::string first = key({a});
    CHECK(first.size() == 32);
    CHECK(key({a}) == first);
    CHECK(key(automatic_loops(machine)) == first);
    CHECK(key({a}, "7") != first);
    CHECK(key({a}, "5", true) != first);
    CHECK(key({way("plain loops")}) != first);
    a.parameters["parallelism"] = "8";
    CHECK(key({a}) != first);
}

TEST_CASE("compare: what is measured") {
    BuiltKernel k;
    k.arguments = {{ValueId(0), 0, Halide::Float(32), {2}, false}, {ValueId(1), 0, Halide::Float(32), {2}, true}};
    auto bytes = [](float a, float b) {
        std::string text(8, 0);
        std::memcpy(text.data(), &a, 4), std::memcpy(text.data() + 4, &b, 4);
        return text;
    };
    CHECK(distance(k, bytes(1, 4), bytes(1, 4)) == 0);
    CHECK(distance(k, bytes(1, 4), bytes(2, 4)) == 0.25);
    CHECK(distance(k, bytes(NAN, 4), bytes(NAN, 4)) == 0);
    CHECK(distance(k, bytes(1, 4), bytes(NAN, 4)) > 1);
    CHECK(distance(k, bytes(INFINITY, 4), bytes(1, 4)) > 1);
    CHECK(distance(k, bytes(0, 0), bytes(1e-3f, 0)) > 1);
    CHECK_ERROR(distance(k, bytes(1, 4), "1234"), "4 bytes were written, expected 8");
}

}  // namespace cryolite::test
