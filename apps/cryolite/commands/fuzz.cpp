// cryolite fuzz: random programs with random legal schedules, compared with what they should compute.

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/fuzz/fuzz_training.h"
#include "apps/cryolite/fuzz/fuzz_trial.h"
#include "apps/cryolite/fuzz/shrink.h"
#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/run/work_folder.h"
#include "client/user_program.h"
#include "runtime/system/process.h"

namespace cryolite {

using nlohmann::json;

namespace {

struct FuzzOptions {
    double seconds = 0;
    int cases = 0, shrinks = 200;
    uint64_t seed = 1;
    std::string one, train;
    double tolerance = 1;
    bool json = false;
};

class FuzzRun {
public:
    explicit FuzzRun(const FuzzOptions &o)
        : options_(o), trials_(folder_.path, fs::read_symlink("/proc/self/exe"), model_program()) {
        trials_.tolerance = o.tolerance;
    }
    int run() {
        bool found = false;
        if (!options_.one.empty())
            found = !clean(read_fuzz_case(options_.one));
        else
            for (uint64_t n = 0; !found && !done(); n++)
                found = !clean(draw_variant(draw_model(options_.seed, n / variants), options_.seed, n));
        summary(found);
        return found ? 1 : 0;
    }

private:
    static constexpr uint64_t variants = 5;  ///< programs of each model: they share most kernels and the reference
    using Clock = std::chrono::steady_clock;

    const FuzzOptions &options_;
    const Clock::time_point start_ = Clock::now();
    WorkFolder folder_{"cryolite-fuzz"};
    FuzzTrials trials_;
    Progress progress_;
    int programs_ = 0, diverged_ = 0;
    FuzzDistance worst_;

    static fs::path model_program() {
        const fs::path path = build_folder() / "bin" / "fuzz_model";
        if (!fs::exists(path))
            fail("there is no {}: build it with ./cryolite fuzz, which needs the compiler", path.string());
        return path;
    }
    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
    bool done() const {
        return (options_.cases && programs_ >= options_.cases) ||
               (options_.seconds > 0 && seconds() >= options_.seconds);
    }
    /// Whether a program agrees with its reference. If it does not, it is made smaller and printed.
    bool clean(const FuzzCase &c) {
        if (interrupted()) throw Interrupted("interrupted");
        progress_.busy(fmt::format("{} programs agree with their references, {}", programs_, clock_text(seconds())));
        const FuzzVerdict v = trials_.run(c);
        if (!v.finding.empty()) return report(v), false;
        programs_++, diverged_ += v.distance.diverged;
        if (v.made.step.precision == "fp32") {
            worst_.losses = std::max(worst_.losses, v.distance.losses);
            worst_.weights = std::max(worst_.weights, v.distance.weights);
        }
        return true;
    }
    void report(const FuzzVerdict &first) {
        progress_.say(fmt::format("after {} programs, {}: {}\n  {}\nlooking for a smaller one", programs_,
                                  clock_text(seconds()), first.finding, text_of(first.made)));
        std::string finding = first.finding;
        int tried = 0;
        const FuzzCase least = shrink(
            first.made,
            [&](const FuzzCase &c) {
                if (interrupted()) throw Interrupted("interrupted");
                progress_.busy(fmt::format("{} smaller programs tried", ++tried));
                const FuzzVerdict v = trials_.run(c);
                // Another failure may be another mistake, which its own run will find.
                const bool same = !v.finding.empty() && kind_of(v.finding) == kind_of(first.finding);
                if (same) finding = v.finding;
                return same;
            },
            options_.shrinks);
        const std::string program = trials_.program_of(least);
        if (options_.json)
            return print_line(json{
                {"event", "finding"},
                {"words", finding},
                {"case", text_of(least)},
                {"program", program},
                {"programs", programs_ + 1},
                {"seconds",
                 seconds()}}.dump());
        fmt::print("{}\n// {}\n// cryolite fuzz --case '{}'\n", program, finding, text_of(least));
    }
    /// The kind of a finding: "it is not compiled", "training fails", or "numbers".
    static std::string kind_of(const std::string &finding) {
        for (const char *kind : {"it is not compiled", "training fails"})
            if (finding.starts_with(kind)) return kind;
        return "numbers";
    }
    void summary(bool found) {
        json refused = json::object();
        for (auto &[why, times] : trials_.refused()) refused[why] = times;
        if (options_.json)
            return print_line(json{{"event", "fuzzed"},
                                   {"programs", programs_},
                                   {"findings", int(found)},
                                   {"diverged", diverged_},
                                   {"refused", refused},
                                   {"seconds", seconds()},
                                   {"off", {worst_.losses, worst_.weights}}}
                                  .dump());
        fmt::print("{} programs agree with their references, of float32 losses within {:.1g} of themselves, and what "
                   "was trained within {:.1g}; {}\n",
                   programs_, worst_.losses, worst_.weights, clock_text(seconds()));
        if (diverged_) fmt::print("  {} of them diverge, and were compared up to there\n", diverged_);
        for (auto &[why, times] : trials_.refused()) fmt::print("  refused {:4} times: {}\n", times, why);
    }
};

FuzzOptions read_fuzz_options(const std::vector<std::string> &arguments) {
    FuzzOptions o;
    std::string time;
    CLI::App app{
        "Compares random programs, with random legal schedules, formats, budgets and workers, with the same "
        "models in float64. What differs is made smaller and printed. Exit status: 0 all agree, 1 one does not.",
        "cryolite fuzz"};
    app.add_option("--for", time, "how long to go on: 90s, 10m, 1h")->type_name("TIME");
    app.add_option("--cases", o.cases, "how many programs")->type_name("N")->check(CLI::Range(1, 1 << 30));
    app.add_option("--seed", o.seed, "the same seed makes the same programs (1)")->type_name("S");
    app.add_option("--case", o.one, "run only this program, as a finding prints it")->type_name("TEXT");
    app.add_option("--shrinks", o.shrinks, "smaller programs to try where one differs (200)")->type_name("N");
    app.add_option("--tolerance", o.tolerance, "factor of the differences that are tolerated (1)")
        ->type_name("X")
        ->check(CLI::PositiveNumber);
    app.add_flag("--json", o.json, "print JSON lines");
    app.add_option("--train", o.train)->group("");  // for its own child, which runs kernels that may crash
    read_line(app, arguments, "fuzz");
    const Setting duration{.name = "for", .range = Setting::Seconds{}};
    if (!time.empty() && !read_value(duration, time, &o.seconds))
        fail_usage("--for is {}, expected {}", shown(time), expected(duration));
    if (time.empty() && !o.cases && o.one.empty()) o.seconds = 600;
    return o;
}

}  // namespace

int run_fuzz(const std::vector<std::string> &arguments) {
    const FuzzOptions options = read_fuzz_options(arguments);
    if (!options.train.empty()) {
        fmt::print("{}\n", train_case(options.train, read_fuzz_case(options.one)));
        return 0;
    }
    defer_signals();
    return FuzzRun(options).run();
}

}  // namespace cryolite
