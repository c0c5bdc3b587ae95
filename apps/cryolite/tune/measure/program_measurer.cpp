#include "apps/cryolite/tune/measure/program_measurer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/session/session.h"
#include "bundle/block_names.h"
#include "bundle/plan_json.h"
#include "client/user_program.h"
#include "runtime/device/hardware.h"
#include "runtime/exec/peak.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr double kernel_time = 0.25, step_time = 1.0;  ///< that a measurement takes, at least
constexpr double child_limit = 60;                     ///< seconds for all else that a child does

json scalars_of(const TrainSettings &s) {
    json scalars = {{"clip", s.clip}, {"lr", std::isnan(s.rate.high) ? 1e-3 : s.rate.high}};
    for (auto &[name, value] : s.numbers) scalars[name] = value;
    return scalars;
}

/// Why a child failed: the last lines that it printed, or else how it ended.
std::string reason_of(const ProcessResult &r) {
    const std::string words = last_lines(r.errors, 500);
    return r.told_why() ? words : how_it_ended(r);
}

/// What kernels are compared with. Kernels for a device have no tensor cores, so that these do not count.
Roof roof_of(const TrainSettings &s, const Plan &plan, int threads) {
    if (s.device == "cpu") return {measure_peak(s, plan, threads), measure_bandwidth(threads)};
    const Hardware h = hardware_of(s.device);
    if (h.peak > 0 && h.bandwidth > 0) return {h.peak, h.bandwidth};
    if (!h.processor)
        tell("tune: the peak of {} is not known: shares of the roofline are of this machine's processor", h.name);
    return {measure_fma_peak(threads), measure_bandwidth(threads)};
}

}  // namespace

ProgramMeasurer::ProgramMeasurer(const Program &program, const TrainSettings &settings, const Cache &cache,
                                 fs::path work, int threads, std::string base, CostModel::Measured measured)
    : program_(program), settings_(settings), cache_(cache), work_(std::move(work)),
      self_(fs::read_symlink("/proc/self/exe")), threads_(threads), base_(std::move(base)),
      measured_(std::move(measured)), limit_(cache) {}

const Roof &ProgramMeasurer::roof(const Plan &plan) const {
    const bool tiles = peak_is_of_tiles(settings_, plan);
    if (!roofs_.contains(tiles)) roofs_[tiles] = roof_of(settings_, plan, threads_);
    return roofs_.at(tiles);
}

BundleRequest ProgramMeasurer::request(const std::string &lines) const {
    BundleRequest r = bundle_request(settings_);
    const std::string all = base_ + (base_.empty() || lines.empty() ? "" : "; ") + lines;
    r.step.tuned = all.empty() ? "none" : all;
    return r;
}

CacheLock ProgramMeasurer::machine(bool alone) const {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);  // several machines may share the cache's folder
    const auto say = [this] {
        if (!std::exchange(said_waiting_, true))
            tell("tune: another search with the cache {} works on this machine: each waits while the other measures",
                 cache_.folder().string());
    };
    return cache_.lock_patiently(fmt::format("measuring-{}", sha256_hex(host.data()).substr(0, 16)), !alone, say,
                                 [] { return interrupted(); });
}

fs::path ProgramMeasurer::made_bundle(const BundleRequest &wanted) const {
    const CacheLock compiling = machine(false);
    return get_bundle(program_, wanted, cache_, {}).folder;
}

fs::path ProgramMeasurer::bundle(const std::string &lines) const { return made_bundle(request(lines)); }

Plan ProgramMeasurer::plan(const std::string &lines) const {
    return read_plan(read_file(bundle(lines) / "plan.json"), "plan.json");
}

std::vector<SearchKernel> ProgramMeasurer::kernels(const std::string &lines) {
    const fs::path file = work_ / "loops.json";
    ProcessOptions options{.argv = {program_.path, "--loops", file, "--store", cache_.kernels()},
                           .program = descriptor_of(program_),
                           .silence_limit = 1.5 * program_time_limit(),
                           .memory_limit = memory_share(1),
                           .on_line = [](std::string_view) { return true; }};
    add_request(options.argv, request(lines));
    const ProcessResult r = run_process(options);
    if (!r.ok()) fail("{} did not list the tunable numbers of its loops: {}", program_.app, reason_of(r));
    const Plan of_step = plan(lines);
    const CostModel model = model_of(of_step);
    const Roof &roof = this->roof(of_step);
    std::map<std::string, double> seconds, least;  // of a step, by symbol: predicted, and on the roofline
    double all = 0;
    for (const PlanCall *c : step_calls(of_step, settings_.accumulate)) {
        const double taken = model.cost(of_step, *c).seconds;
        all += taken;
        if (c->kernel < 0) continue;
        const std::string &symbol = of_step.kernels[size_t(c->kernel)].symbol;
        seconds[symbol] += taken, least[symbol] += roof.seconds(*c);
    }
    std::vector<SearchKernel> kernels;
    for (const json &k : json::parse(read_file(file))) {
        const std::string symbol = k.at("symbol");
        if (auto same = std::ranges::find(kernels, symbol, &SearchKernel::symbol); same != kernels.end()) {
            same->loops_of.push_back(k.at("loops_of"));
            continue;
        }
        if (seconds[symbol] <= 0) continue;  // only the evaluation has it
        SearchKernel s{.name = k.at("kernel"),
                       .symbol = symbol,
                       .algorithm = k.at("algorithm"),
                       .loops_of = {k.at("loops_of").get<std::string>()},
                       .share = seconds[symbol] / all,
                       .roof = least[symbol] / seconds[symbol],
                       .lines = lines};
        for (const json &n : k.at("tunables"))
            s.numbers.push_back({n.at("name"), n.at("value"), n.at("usual"), n.at("legal"), n.at("same_order")});
        kernels.push_back(s);
    }
    return kernels;
}

/// A cost model that has learned from the measured kernels of `plan` how near to the roofline kernels come.
CostModel ProgramMeasurer::model_of(const Plan &plan) const {
    CostModel model(roof(plan), measured_, std::cref(limit_));  // by reference, as `limit_` keeps what it has read
    model.learn(plan, step_calls(plan, settings_.accumulate));
    return model;
}

std::vector<StepKernel> ProgramMeasurer::kernels_of(const Plan &plan, const CostModel &model) const {
    std::map<std::string, StepKernel> by_key;
    for (const PlanCall *c : step_calls(plan, settings_.accumulate)) {
        if (c->kernel < 0) continue;  // a sum over workers, which no line changes
        const std::string key = cost_key(plan.kernels[size_t(c->kernel)]);
        StepKernel &k = by_key.try_emplace(key, StepKernel{.key = key}).first->second;
        k.predicted = (k.predicted * k.calls + model.cost(plan, *c).seconds) / (k.calls + 1), k.calls++;
    }
    std::vector<StepKernel> list;
    for (auto &[key, k] : by_key) list.push_back(k);
    return list;
}

StepKernels ProgramMeasurer::step(const std::string &lines) {
    try {
        const Plan of_step = plan(lines);
        return {kernels_of(of_step, model_of(of_step)), ""};
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {  // the compiler refuses a line
        return {{}, e.what()};
    }
}

std::vector<LineMove> ProgramMeasurer::moves(const std::string &lines, const std::set<std::string> &without,
                                             double seconds) {
    const fs::path folder = work_ / fmt::format("moves{}", made_++), file = work_ / "without.json";
    write_file_atomic(file, json{{"without", without}}.dump());
    const CostModel model = model_of(plan(lines));
    std::vector<LineMove> moves;
    ProcessOptions options{.argv = {program_.path, "--moves", file, "--bundle", folder, "--store", cache_.kernels()},
                           .program = descriptor_of(program_),
                           .time_limit = std::max(1.0, seconds),
                           .memory_limit = memory_share(1)};
    add_request(options.argv, request(lines));
    options.on_line = [&](std::string_view text) {
        const json j = json::parse(text, nullptr, false);
        if (!j.is_object() || !j.contains("line")) return true;
        LineMove m{.line = j.at("line"), .refused = j.value("refused", "")};
        if (m.refused.empty())
            m.kernels = kernels_of(read_plan(read_file(j.at("plan").get<std::string>()), "plan.json"), model);
        moves.push_back(m);
        return true;
    };
    const ProcessResult r = run_process(options);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (!r.ok() && r.limit == 0) fail("{} did not list the schedule lines to try: {}", program_.app, reason_of(r));
    return moves;
}

const ProgramMeasurer::StepTimes &ProgramMeasurer::times(const std::string &lines) {
    if (const auto at = timed_.find(lines); at != timed_.end()) return at->second;
    StepTimes &t = timed_[lines];
    const fs::path folder = bundle(lines);
    const Plan plan = read_plan(read_file(folder / "plan.json"), "plan.json");
    const std::string answer = ask_child(json{{"what", "profile"},
                                              {"bundle", folder.string()},
                                              {"threads", threads_},
                                              {"accumulate", settings_.accumulate},
                                              {"scalars", scalars_of(settings_)}}
                                             .dump(),
                                         limit_of_steps(plan), t.calls.refused);
    if (!t.calls.refused.empty()) return t;
    const json profile = json::parse(answer);
    std::map<std::string, std::vector<double>> of_calls;
    for (const auto &[kernel, seconds] : profile.at("kernels").items())
        for (double s : seconds) of_calls[cost_key(plan.kernels.at(std::stoul(kernel)))].push_back(s);
    t.step = profile.at("step");
    for (const auto &[key, list] : of_calls)
        t.calls.seconds[key] = std::accumulate(list.begin(), list.end(), 0.0) / double(list.size());
    return t;
}

/// Forgets the times that it returns, so that the next call measures again.
CallTimes ProgramMeasurer::time_calls(const std::string &lines) {
    CallTimes calls = times(lines).calls;
    timed_.erase(lines);
    return calls;
}

double ProgramMeasurer::step_seconds(const std::string &lines) {
    const StepTimes &t = times(lines);
    if (!t.calls.refused.empty()) fail("the step could not be timed: {}", t.calls.refused);
    return t.step;
}

StepProfile ProgramMeasurer::profile(const std::string &lines) {
    timed_.erase(lines);  // the machine may have changed its speed during the search
    StepProfile profile{.seconds = step_seconds(lines), .kernels = {}};
    const Plan of_step = plan(lines);
    const std::map<std::string, double> &taken = times(lines).calls.seconds;
    const Roof &roof = this->roof(of_step);
    const CostModel model(roof, [&](const std::string &key) {
        const auto at = taken.find(key);
        return at == taken.end() ? std::nullopt : std::optional(at->second);
    });
    std::map<std::string, KernelTime> by_name;
    for (const PlanCall *c : step_calls(of_step, settings_.accumulate)) {
        if (c->kernel < 0) continue;
        const std::string name = without_numbers(c->name);
        KernelTime &k = by_name.try_emplace(name, KernelTime{.name = name}).first->second;
        k.seconds += model.cost(of_step, *c).seconds, k.roof_seconds += roof.seconds(*c);
    }
    for (const auto &[name, k] : by_name) profile.kernels.push_back(k);
    return profile;
}

std::vector<MadeKernel> ProgramMeasurer::make(const SearchKernel &kernel, const std::vector<std::string> &numbers,
                                              const Made &tell_made) {
    const fs::path folder = work_ / fmt::format("made{}", made_++), file = work_ / "candidates.json";
    write_file_atomic(file, json{{"kernel", kernel.name},
                                 {"candidates", numbers},
                                 {"algorithm", kernel.algorithm},
                                 {"expected", (work_ / "expected").string()}}
                                .dump());
    std::vector<MadeKernel> made(numbers.size());
    for (MadeKernel &m : made) m.refused = "the generator program ended before it was compiled";
    ProcessOptions options{.argv = {program_.path, "--candidates", file, "--bundle", folder, "--store",
                                    cache_.kernels(), "--time-limit", "60"},
                           .program = descriptor_of(program_),
                           .silence_limit = 1.5 * program_time_limit(),
                           .memory_limit = memory_share(1)};
    add_request(options.argv, request(kernel.lines));
    options.on_line = [&](std::string_view line) {
        const json j = json::parse(line, nullptr, false);
        if (!j.is_object() || !j.contains("candidate")) return true;
        MadeKernel &m = made.at(j.at("candidate"));
        m = {(folder / j.at("candidate").dump()).string(), j.value("symbol", ""), j.value("error", ""),
             j.value("unsure", "")};
        tell_made(j.at("candidate"), m);
        return true;
    };
    const CacheLock compiling = machine(false), kernels = cache_.lock_kernels(true);
    const ProcessResult r = run_process(options);
    if (!r.ok())
        for (MadeKernel &m : made)
            if (!m.refused.empty() && m.symbol.empty()) m.refused = reason_of(r);
    for (MadeKernel &m : made)
        if (m.refused.empty()) m.limit = limit_(m.symbol).value_or(0);
    return made;
}

/// Does a job in a child process, which may crash. Returns the answer; `refused`: why there is none.
std::string ProgramMeasurer::ask_child(const std::string &job, double limit, std::string &refused) const {
    const fs::path file = work_ / "job.json";
    write_file_atomic(file, job);
    const CacheLock alone = machine(true);
    const ProcessResult r =
        run_process({.argv = {self_, "tune", "--measure", file}, .time_limit = limit, .memory_limit = memory_share(1)});
    if (!r.ok()) refused = reason_of(r);
    return r.output;
}

/// A limit for a child that times steps of the plan. It runs some 60 of them at most, and machines are busy at times.
double ProgramMeasurer::limit_of_steps(const Plan &plan) const {
    constexpr int steps = 60, slower = 4;
    const CostModel model = model_of(plan);
    double predicted = 0;
    for (const StepKernel &k : kernels_of(plan, model)) predicted += k.calls * k.predicted;
    return child_limit + steps * slower * predicted;
}

Timing ProgramMeasurer::timing_of(const std::string &job, double limit) const {
    Timing t;
    const std::string answer = ask_child(job, limit, t.refused);
    if (!t.refused.empty()) return t;
    const json j = json::parse(answer, nullptr, false);
    if (!j.is_object()) return t.refused = "its kernels printed to the standard output", t;
    t.before = j.at("before"), t.after = j.at("after"), t.noise = j.at("noise"), t.same_bits = j.at("same_bits");
    t.busy = j.at("busy");
    return t;
}

Timing ProgramMeasurer::time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) {
    auto place = [](const MadeKernel &m) { return json{{"folder", m.folder}, {"symbol", m.symbol}}; };
    return timing_of(json{{"what", "kernel"},
                          {"bundle", bundle(kernel.lines).string()},
                          {"kernel", kernel.symbol},
                          {"threads", threads_},
                          {"before", place(before)},
                          {"after", place(after)},
                          {"seconds", kernel_time}}
                         .dump(),
                     child_limit);
}

Timing ProgramMeasurer::time_step(const std::string &before, const std::string &after) {
    return time_steps(request(before), request(after));
}

Timing ProgramMeasurer::time_beside_shipped(const std::string &lines) {
    BundleRequest shipped = request("");
    shipped.step.tuned = "none";
    return time_steps(shipped, request(lines));
}

Timing ProgramMeasurer::time_steps(const BundleRequest &before, const BundleRequest &after) {
    Timing t;
    try {
        const fs::path first = made_bundle(before), second = made_bundle(after);
        return timing_of(json{{"what", "step"},
                              {"before", first.string()},
                              {"after", second.string()},
                              {"threads", threads_},
                              {"accumulate", settings_.accumulate},
                              {"scalars", scalars_of(settings_)},
                              {"seconds", step_time}}
                             .dump(),
                         limit_of_steps(read_plan(read_file(first / "plan.json"), "plan.json")));
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {  // the compiler refuses a line
        t.refused = e.what();
    }
    return t;
}

}  // namespace cryolite
