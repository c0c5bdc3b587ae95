#include "apps/cryolite/tune/measure/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/cryolite/inputs/random_batches.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/tune/measure/kernel_run.h"
#include "bundle/plan_json.h"
#include "runtime/device/make_device.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Whether so many rounds, since `start`, are enough for a median: nine, or five where they take many seconds.
bool enough(size_t rounds, Clock::time_point start, double seconds) {
    constexpr double many_seconds = 15;
    const double taken = since(start);
    return taken >= seconds && rounds >= (taken < many_seconds ? 9 : 5);
}

/// Times of two candidates that ran in turn.
class Rounds {
public:
    void add(double before, double after) { before_.push_back(before), after_.push_back(after); }
    size_t count() const { return before_.size(); }
    /// Whether the machine became faster or slower meanwhile: then the rounds say nothing.
    bool drifted() const {
        const size_t third = std::max<size_t>(2, before_.size() / 3);
        const double first = median({before_.begin(), before_.begin() + long(third)}),
                     last = median({before_.end() - long(third), before_.end()});
        return std::max(first, last) > 1.25 * std::min(first, last);
    }
    Timing timing() const {
        std::vector<double> ratios, off;
        for (size_t i = 0; i < count(); i++) ratios.push_back(after_[i] / before_[i]);
        const double middle = median(ratios);
        for (double r : ratios) off.push_back(std::abs(r - middle));
        // The error of a median is 1.25 standard deviations over the root of the count. One standard deviation is 1.48
        // median absolute deviations.
        const double noise = 2 * 1.25 * 1.48 * median(off) / std::sqrt(double(count()));
        const double before = median(before_);
        return {.before = before, .after = before * middle, .noise = noise};
    }

private:
    std::vector<double> before_, after_;
};

/// Times both in turn, for `seconds` at least; again if the machine's speed drifts, up to 3 times.
Timing timed(const std::function<double()> &before, const std::function<double()> &after, double seconds) {
    for (int attempt = 0; attempt < 3; attempt++) {
        Rounds rounds;
        const auto start = Clock::now();
        while (!enough(rounds.count(), start, seconds)) {
            const bool turned = rounds.count() % 2;  // the second finds the caches as the first left them
            const double first = turned ? after() : before(), second = turned ? before() : after();
            rounds.add(turned ? second : first, turned ? first : second);
        }
        if (!rounds.drifted()) return rounds.timing();
    }
    return {.busy = true};
}

json json_of(const Timing &t) {
    return {{"before", t.before}, {"after", t.after}, {"noise", t.noise}, {"same_bits", t.same_bits}, {"busy", t.busy}};
}

json measure_kernel(const json &job) {
    const fs::path folder = job.at("bundle").get<std::string>();
    const Bundle bundle(folder);  // brings what the candidates need of Halide's runtime
    const std::unique_ptr<Device> device = make_device(bundle.plan.device, job.at("threads"));
    auto load = [&](const char *which) {
        return LoadedKernel(job.at(which).at("folder").get<std::string>(), job.at(which).at("symbol"));
    };
    const LoadedKernel before = load("before"), after = load("after");
    KernelRun run(bundle.plan, job.at("kernel"), *device);
    return json_of(compare_kernels(run, before.function(), after.function(), *device, job.at("seconds")));
}

/// A bundle that trains on random batches.
class StepRun {
public:
    StepRun(const fs::path &folder, const json &job)
        : bundle_(std::make_shared<Bundle>(folder)), accumulate_(job.at("accumulate")) {
        std::vector<Device *> list;
        for (int w = 0; w < bundle_->plan.workers; w++)
            devices_.push_back(make_device(bundle_->plan.device, job.at("threads"), {}, {.ordinal = w})),
                list.push_back(devices_.back().get());
        trainer_ = std::make_unique<Trainer>(bundle_, list, known_processes());
        trainer_->initialise(1);
        for (auto &[name, value] : job.at("scalars").items()) trainer_->set(name, value);
        loader_ = std::make_unique<Loader>(random_batches(bundle_->plan, 1));
    }
    double step() {
        const auto start = Clock::now();
        losses_.push_back(trainer_->step([&]() -> const Batch & { return loader_->next(); }, accumulate_));
        return since(start);
    }
    const std::vector<double> &losses() const { return losses_; }
    /// All parameters after training, to compare their bits.
    std::vector<float> numbers() {
        trainer_->flush();
        std::vector<float> all;
        for (size_t b = 0; b < trainer_->plan().buffers.size(); b++) {
            const PlanBuffer &w = trainer_->plan().buffers[b];
            if (w.role != Role::parameter) continue;
            std::vector<float> values(size_t(w.elements()));
            trainer_->get(int(b), values);
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    }
    Trainer &trainer() { return *trainer_; }

private:
    std::shared_ptr<const Bundle> bundle_;
    int accumulate_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::unique_ptr<Trainer> trainer_;
    std::unique_ptr<Loader> loader_;
    std::vector<double> losses_;
};

json measure_step(const json &job) {
    StepRun before(job.at("before").get<std::string>(), job), after(job.at("after").get<std::string>(), job);
    for (int k = 0; k < 3; k++) before.step(), after.step();
    const double off = relative_difference(before.losses(), after.losses()), allowed = 1e-2;
    if (off > allowed)
        fail("the losses of its first three steps are {:.6g}, not {:.6g}", fmt::join(after.losses(), ", "),
             fmt::join(before.losses(), ", "));
    const std::vector<float> b = before.numbers(), a = after.numbers();
    const bool same = before.losses() == after.losses() && a.size() == b.size() &&
                      std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    Timing t = timed([&] { return before.step(); }, [&] { return after.step(); }, job.at("seconds"));
    t.same_bits = same;
    return json_of(t);
}

/// Times of a step and of its calls. They are medians over rounds, as another program may disturb a round. The time in
/// which threads wait at the end of a kernel does not count, as other kernels use it in a step.
json profile(const json &job) {
    constexpr double seconds = 0.4;
    StepRun run(job.at("bundle").get<std::string>(), job);
    const Plan &plan = run.trainer().plan();
    const std::vector<const PlanCall *> calls = step_calls(plan, job.at("accumulate"));
    std::vector<double> now, step;
    for (int k = 0; k < 2; k++) run.step();
    std::vector<std::vector<double>> of_call(calls.size());
    for (int attempt = 0; attempt < 3; attempt++) {
        step.clear();
        for (auto &list : of_call) list.clear();
        Rounds rounds;
        for (const auto start = Clock::now(); !enough(rounds.count(), start, seconds);) {
            run.trainer().profile(nullptr);
            step.push_back(run.step());
            now.clear();
            run.trainer().profile(&now, true);
            run.step();
            double all = 0;
            for (size_t i = 0; i < calls.size() && i < now.size(); i++) of_call[i].push_back(now[i]), all += now[i];
            rounds.add(step.back(), all);
        }
        if (rounds.drifted()) continue;
        std::map<std::string, std::vector<double>> by_kernel;
        for (size_t i = 0; i < calls.size(); i++)
            if (calls[i]->kernel >= 0 && !of_call[i].empty())
                by_kernel[std::to_string(calls[i]->kernel)].push_back(median(of_call[i]));
        return {{"step", median(step)}, {"kernels", by_kernel}, {"busy", false}};
    }
    return {{"step", median(step)}, {"kernels", json::object()}, {"busy", true}};
}

}  // namespace

double relative_difference(std::span<const double> before, std::span<const double> after) {
    double most = 0;
    for (size_t k = 0; k < before.size(); k++) {
        if (!std::isfinite(before[k]) || !std::isfinite(after[k])) return std::numeric_limits<double>::infinity();
        if (before[k] != after[k]) most = std::max(most, std::abs(before[k] - after[k]) / std::abs(before[k]));
    }
    return most;
}

Timing compare_kernels(KernelRun &run, Bundle::Function before, Bundle::Function after, Device &device,
                       double seconds) {
    constexpr double allowed = 2e-2;  // of the largest element: a wrong loop is off by whole terms
    const std::string expected = run.outputs(before), got = run.outputs(after);
    if (device.name() == "cpu")
        for (SerialOrder order : {SerialOrder::forwards, SerialOrder::backwards, SerialOrder::strided})
            if (got != run.outputs(after, order)) fail("its result depends on the order of its parallel iterations");
    for (int times = 0; times < 2; times++)
        if (got != run.outputs(after)) fail("its result is not the same when it is run again");
    const double off = run.distance(expected, got);
    if (!(off <= allowed))
        fail("its result is off by {:.2g} of the largest element, beside the kernel that it replaces", off);
    run.fill();
    const int times = int(std::clamp(2e-3 / std::max(1e-7, run.seconds(before, 1)), 1.0, 2000.0));
    Timing t = timed([&] { return run.seconds(before, times) / times; },
                     [&] { return run.seconds(after, times) / times; }, seconds);
    if (got != run.outputs(after)) fail("its result changed after it was timed");
    t.same_bits = expected == got;
    return t;
}

std::string measure(const std::string &text) {
    const json job = json::parse(text);
    const std::string what = job.at("what");
    return (what == "kernel" ? measure_kernel(job) : what == "step" ? measure_step(job) : profile(job)).dump();
}

}  // namespace cryolite
