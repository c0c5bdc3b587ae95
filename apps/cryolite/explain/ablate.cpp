#include "apps/cryolite/explain/ablate.h"

#include <algorithm>
#include <chrono>

#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/inputs/random_batches.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/session/session.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

namespace {

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// A variant for every directive. The first, with which the others are compared, has separate updates.
AblationGroup directives(const std::string &format, const std::vector<std::string> &flags) {
    AblationGroup g{format, {}};
    for (const char *update : {"separate", "backward", "forward", "auto"})
        g.variants.push_back({fmt::format("--update {}", update), joined(flags, {"--update", update})});
    auto changed = [&](const std::string &name, const std::vector<std::string> &more, bool half) {
        g.variants.push_back({name, joined(g.variants[0].flags, more), half});
    };
    changed("--group none", {"--group", "none"}, false);
    changed("--head-rows 0", {"--head-rows", "0"}, false);
    changed("half the activations", {}, true);
    return g;
}

/// What scaling the loss and withholding updates cost: a step without them, then one with them.
AblationGroup checks(const std::string &format, std::vector<std::string> flags, const std::string &update) {
    flags = joined(flags, {"--update", update});
    AblationGroup g{format, {}};
    for (const char *check : {"off", "on"})
        g.variants.push_back(
            {fmt::format("{}, --finite-check {}", update, check), joined(flags, {"--finite-check", check})});
    return g;
}

}  // namespace

std::vector<AblationGroup> ablation_groups(const std::string &precision) {
    std::vector<AblationGroup> list;
    for (const FormatRow &f : number_formats) {
        if (!precision.empty() && precision != f.name) continue;
        for (const char *clip : {"0", "1"}) {
            const std::vector<std::string> flags = {"--precision", f.name, "--clip", clip};
            const std::string name = fmt::format("{}, {}", f.name, *clip == '0' ? "no clipping" : "clipped");
            list.push_back(directives(name, flags));
            for (const char *update : {"separate", "auto"})
                if (f.is_narrow()) list.push_back(checks(name, flags, update));
        }
    }
    return list;
}

namespace {

class Runner {
public:
    Runner(std::vector<std::string> arguments, const TimedVariant &v, Progress &progress, int64_t budget)
        : request_(read_request(Command::bench, with(std::move(arguments), v, budget))), s_(understand(request_)) {
        random_data(s_, request_);
        session_ = open_session(s_, request_, progress);
        begin_weights(*session_->trainer, s_, request_);
        session_->trainer->set("lr", 1e-4);
        loader_ = std::make_unique<Loader>(random_batches(plan(), s_.seed));
    }

    void step(bool timed) {
        if (interrupted()) throw Interrupted("interrupted");
        const auto start = std::chrono::steady_clock::now();
        session_->trainer->step([&]() -> const Batch & { return loader_->next(); }, 1);
        if (timed) times_.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const StepTimes &times() const { return times_; }
    const Plan &plan() const { return session_->trainer->plan(); }
    int64_t memory() const {
        int64_t bytes = 0;
        for (auto &[role, of_role] : plan().memory()) bytes += of_role;
        return bytes;
    }
    int64_t moved() const {
        int64_t bytes = 0;
        for (const PlanCall *c : step_calls(plan(), 1)) bytes += c->bytes;
        return bytes;
    }

private:
    Request request_;
    TrainSettings s_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Loader> loader_;
    StepTimes times_;

    static std::vector<std::string> with(std::vector<std::string> a, const TimedVariant &v, int64_t budget) {
        a.insert(a.end(), v.flags.begin(), v.flags.end());
        if (v.half) a.insert(a.end(), {"--recompute", std::to_string(budget)});
        return a;
    }
};

/// The variants take turns in each round, so that other load on the machine meets all of them. The first round is not
/// timed.
void run_group(const std::vector<std::string> &arguments, const AblationGroup &g, const std::string &rows,
               uint64_t rounds, Progress &progress) {
    constexpr int steps = 3;
    std::vector<std::unique_ptr<Runner>> runners;
    int64_t budget = 0;
    std::vector<std::string> missing;
    for (const TimedVariant &v : g.variants) {
        try {
            runners.push_back(std::make_unique<Runner>(arguments, v, progress, budget));
        } catch (const Error &e) {
            runners.push_back(nullptr);
            missing.push_back(fmt::format("{}: {}", v.name, e.what()));
            continue;
        }
        if (runners.size() == 1) budget = runners[0]->memory() - runners[0]->plan().arena / 2;
    }
    for (uint64_t r = 0; r <= rounds; r++)
        for (auto &runner : runners)
            for (int k = -1; runner && k < steps; k++) runner->step(k >= 0 && r > 0);
    for (size_t i = 0; i < runners.size(); i++) {
        if (!runners[i]) continue;
        const Runner &x = *runners[i], &base = *runners[0];
        fmt::print("{:>5}  {:18}  {:28} {:9.2f} {:9.2f} {:7.3f} {:7.3f} {:9.1f} {:9.3f}\n", rows, g.name,
                   g.variants[i].name, 1e3 * x.times().best(), 1e3 * x.times().median(),
                   base.times().best() / x.times().best(), base.times().median() / x.times().median(),
                   1e-6 * double(x.memory()), 1e-9 * double(x.moved()));
    }
    for (const std::string &m : missing) fmt::print("{:>5}  {:18}  {}\n", rows, g.name, m);
    fflush(stdout);
}

}  // namespace

int run_ablation(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::bench, arguments);
    const TrainSettings s = understand(request);
    if (!s.trace.empty()) fail_usage("--trace and --ablate: choose one, as --ablate runs many programs in turn");
    Progress progress;
    defer_signals();
    if (s.precision == "tf32") fail_usage("--ablate --precision tf32: directives are compared in fp32, bf16 and fp16");
    const uint64_t rounds = request.values.chosen("steps") ? s.steps() : 3;
    fmt::print("{:>5}  {:18}  {:28} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9}\n", "rows", "format", "directive", "best ms",
               "median", "faster", "(median)", "MB", "GB moved");
    std::vector<std::string> all_rows = {"32", "64", "256", "1024"};
    if (auto at = std::ranges::find(arguments, "--context"); at != arguments.end() && at + 1 != arguments.end())
        all_rows = {at[1]};
    for (const std::string &rows : all_rows)
        for (const AblationGroup &g : ablation_groups(request.values.chosen("precision") ? s.precision : "")) {
            std::vector<std::string> a = arguments;
            a.insert(a.end(), {"--batch", "1", "--context", rows});
            run_group(a, g, rows, rounds, progress);
        }
    return 0;
}

}  // namespace cryolite
