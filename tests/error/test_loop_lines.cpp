// Numbers of loops in lines: what is legal changes no value, what is not is refused by its place.

#include "dsl/layers/activation.h"
#include "dsl/layers/linear.h"
#include "generators/driver/trials/loop_trials.h"
#include "schedules/lines.h"
#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

const Machine machine = Machine::of(test_target());

struct Wide : Classifier {
    Linear up{"h.0.up", 24, 96}, down{"h.1.up", 96, 24};
    Linear head{"head", 24, classes};

    Shape features() const override { return {24}; }
    Tensor forward(Tensor x) override { return head(down(up(x))); }
};

Compiled<Wide> with(const std::string &lines) {
    return Compiled<Wide>({{"batch", "32"}}, [&](Wide &n, Step &s) { add_lines(s, n, lines, "my.schedule"); });
}

CompileReport described(const Compiled<Wide> &c) {
    return describe_kernels(c.program, c.machine, {.time_limit = 60, .algorithms = true});
}

std::string said(const std::string &lines) {
    return error_of([&] { described(with(lines)); });
}

const CompiledKernel &kernel_of(const CompileReport &r, const std::string &loops_of, const std::string &number) {
    for (const CompiledKernel &k : r.kernels)
        if (k.loops_of == loops_of && std::ranges::find(k.tunables, number, &Tunable::name) != k.tunables.end())
            return k;
    fail("no kernel of {} has {}", loops_of, number);
}

int value_of(const CompiledKernel &k, const std::string &name) {
    return std::ranges::find(k.tunables, name, &Tunable::name)->value;
}

}  // namespace

TEST_CASE("numbers of loops: what is usual gives the same kernel, another another, of the same algorithm") {
    const CompileReport plain = described(with("")), same = described(with(loop_lines(plain, machine)));
    REQUIRE(plain.kernels.size() == same.kernels.size());
    for (size_t k = 0; k < plain.kernels.size(); k++) CHECK(plain.kernels[k].key == same.kernels[k].key);
    const CompileReport other = described(with("loops(h.0.up, forward): rows=2 columns=16"));
    const CompiledKernel &before = kernel_of(plain, "h.0.up, forward", "rows"),
                         &after = kernel_of(other, "h.0.up, forward", "rows");
    CHECK(value_of(after, "rows") == 2);
    CHECK(value_of(after, "columns") == 16);
    CHECK(after.key != before.key);
    CHECK(after.algorithm == before.algorithm);
    CHECK(kernel_of(other, "h.1.up, forward", "rows").key == kernel_of(plain, "h.1.up, forward", "rows").key);
}

TEST_CASE("numbers of loops: a star, the last line wins, and a text in C++ says the same") {
    const CompileReport both = described(with("loops(h.*.up, forward): rows=3\nloops(h.1.up, forward): rows=1"));
    CHECK(value_of(kernel_of(both, "h.0.up, forward", "rows"), "rows") == 3);
    CHECK(value_of(kernel_of(both, "h.1.up, forward", "rows"), "rows") == 1);
    const Machine machine = Machine::of(test_target());
    Step step(machine);
    step.lines("loops(h.0.up, forward): rows=3");
    REQUIRE(step.texts.size() == 1);
    CHECK(step.texts[0].second.find("test_loop_lines.cpp:") == 0);
}

TEST_CASE("numbers of loops: what is not legal is refused by its place, with what is") {
    CHECK(said("\n  loops(h.0.up, forward): rows=99").find("my.schedule:2:27: rows is 99, expected 1, 2, ") !=
          std::string::npos);
    const std::string none = said("loops(h.*.up, forward): heihgt=2");
    CHECK(none.find(
              "my.schedule:1:25: no kernel of loops(h.1.up, forward) has a number 'heihgt'; there are columns (") == 0);
    CHECK(said("loops(loss, d_parameter): rows=2").find("there is none at all: explain --ir lines") !=
          std::string::npos);
    CHECK(said("loops(h.0.up, backward): rows=2") ==
          "my.schedule:1:15: found 'backward', expected forward, d_input, d_parameter, update or norm");
    CHECK(said("loops(h.0.upp, forward): rows=2").find("my.schedule:1:7: the model has no 'h.0.upp'") == 0);
    CHECK(said("loops(h.0.up, forward) rows=2") == "my.schedule:1:24: found 'rows=2', expected ':'");
    CHECK(said("loops(h.0.up, forward): rows=few") == "my.schedule:1:30: found 'few', expected a whole number");
    CHECK(said("loops(h.0.up, forward):") ==
          "my.schedule:1:24: found the end, expected the name of a number of the loops, as rows");
}

TEST_CASE("automatic loops: of one kernel by its number, of all that had written ones by s.clear_loops()") {
    const CompileReport plain = described(with("")), one = described(with("loops(h.0.up, forward): automatic=3")),
                        none = described(with("s.clear_loops()"));
    const CompiledKernel &before = kernel_of(plain, "h.0.up, forward", "automatic"),
                         &after = kernel_of(one, "h.0.up, forward", "automatic");
    CHECK(before.loops == "product");
    CHECK(before.tunables.back().name == "automatic");
    CHECK(after.loops == "");  // until it is compiled
    CHECK(after.tunables.size() == 1);
    CHECK(after.key != before.key);
    CHECK(after.algorithm == before.algorithm);
    CHECK(kernel_of(one, "h.1.up, forward", "rows").key == kernel_of(plain, "h.1.up, forward", "rows").key);
    const CompileReport of_ours = described(with("loops(h.0.up, forward): automatic=tiled rows=2"));
    const CompiledKernel &tiled = kernel_of(of_ours, "h.0.up, forward", "automatic");
    CHECK(tiled.loops == "tiled");
    CHECK(tiled.tunables.size() == 4);  // stored_from, columns and rows, too
    CHECK(tiled.key != before.key);
    CHECK(tiled.algorithm == before.algorithm);
    int automatic = 0, in_place = 0;
    for (size_t k = 0; k < none.kernels.size(); k++) {
        const CompiledKernel &kernel = none.kernels[k];
        automatic += kernel.loops.empty(), in_place += kernel.loops == "plain loops";
        CAPTURE(kernel.loops_of);
        CAPTURE(kernel.loops);
        CHECK((kernel.loops.empty() ? kernel.tunables.size() == 1 : kernel.loops == "plain loops"));
        CHECK(kernel.algorithm == plain.kernels[k].algorithm);
    }
    CHECK(automatic > 5);
    CHECK(in_place > 0);
    CHECK(said("loops(h.0.up, forward): automatic=7")
              .find("found '7', expected a whole number from 0 to 6, or written") != std::string::npos);
    CHECK(loop_lines(none, machine)
              .find(" automatic=0;  // automatic: automatic 0 (the first of 1, 2 and 3 that serves), 1 or "
                    "adams2019,") != std::string::npos);
    CHECK(loop_lines(none, machine).find("written") == std::string::npos);
    CHECK(loop_lines(plain, machine).find("0 or written, 1 or adams2019") != std::string::npos);
    CHECK(said("loops(h.0.up, forward): automatic=1 rows=4").find("has a number 'rows'; there are automatic (") !=
          std::string::npos);
    CHECK(said("s.clear_loops(); loops(h.0.up, forward): rows=4")
              .ends_with("automatic=tiled has others, as rows and columns"));
    CHECK(said("loops(h.0.up.weight, update): automatic=1").find("has a number 'automatic'") != std::string::npos);
}

TEST_CASE("numbers of loops: of a stage in the kernel of another, that one is named") {
    struct Joined : Classifier {
        Linear up{"up", 24, 96}, head{"head", 96, classes};
        Relu act{"act"};
        Shape features() const override { return {24}; }
        Tensor forward(Tensor x) override { return head(act(up(x))); }
    };
    const std::string text = "s(act).compute_with(up); loops(act, forward): rows=2";
    const std::string why = error_of([&] {
        const Compiled<Joined> c({{"batch", "32"}}, [&](Joined &n, Step &s) { add_lines(s, n, text, "my.schedule"); });
        describe_kernels(c.program, c.machine, {.time_limit = 60, .algorithms = true});
    });
    CHECK(why.ends_with("has a number 'rows'; it is computed in the loops of loops(up, forward)"));
}

TEST_CASE("numbers of loops: the smallest and the largest of each compute what the unscheduled kernel does") {
    std::string lines;
    for (bool largest : {false, true}) {
        std::map<std::string, std::string> by_owner;
        for (const CompiledKernel &k : described(with("")).kernels)
            for (const Tunable &t : k.tunables)
                if (k.loops_of.find("up, ") != std::string::npos && t.name != "rows" &&  // these depend on the columns
                    t.name != "automatic")
                    by_owner[k.loops_of + t.name] =
                        fmt::format("loops({}): {}={}\n", k.loops_of, t.name, largest ? t.legal.back() : t.legal[0]);
        lines.clear();
        for (auto &[owner, line] : by_owner) lines += line;
        CAPTURE(lines);
        check_kernels(with(lines), 3e-5, [](const StepProgram &, const ir::Kernel &) { return true; });
    }
}

}  // namespace cryolite::test
