#include "apps/cryolite/tune/program_measurer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/cryolite/report/kernel_times.h"
#include "apps/cryolite/session/session.h"
#include "client/user_program.h"
#include "runtime/exec/peak.h"
#include "runtime/io/process.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr double kernel_seconds = 0.25, step_seconds = 1.0;  ///< of a measurement

json scalars_of(const TrainSettings &s) {
    json scalars = {{"clip", s.clip}, {"lr", std::isnan(s.rate.high) ? 1e-3 : s.rate.high}};
    for (auto &[name, value] : s.numbers) scalars[name] = value;
    return scalars;
}

/// The last line that a child said, as a reason.
std::string reason_of(const ProcessResult &r) {
    const std::string words = last_lines(r.errors, 500);
    return r.status == 1 && !r.signal && !r.limit && !words.empty() ? words : how_it_ended(r);
}

}  // namespace

ProgramMeasurer::ProgramMeasurer(const Program &program, const TrainSettings &settings, const Cache &cache,
                                 fs::path work, int threads, std::string base)
    : program_(program), settings_(settings), cache_(cache), work_(std::move(work)),
      self_(fs::read_symlink("/proc/self/exe")), threads_(threads), base_(std::move(base)),
      bundle_(get_bundle(program, request(""), cache, {}).folder), roof_{measure_peak(settings, threads),
                                                                         measure_bandwidth(threads)} {}

BundleRequest ProgramMeasurer::request(const std::string &lines) const {
    BundleRequest r = bundle_request(settings_);
    const std::string all = base_ + (base_.empty() || lines.empty() ? "" : "; ") + lines;
    r.step.tuned = all.empty() ? "none" : all;
    return r;
}

std::vector<SearchKernel> ProgramMeasurer::kernels(double &seconds) {
    const fs::path file = work_ / "loops.json";
    ProcessOptions options{.argv = {program_.path, "--loops", file, "--store", cache_.kernels()},
                           .program = descriptor_of(program_),
                           .silence_limit = 1.5 * program_time_limit(),
                           .memory_limit = memory_share(1),
                           .on_line = [](std::string_view) { return true; }};
    add_request(options.argv, request(""));
    const ProcessResult r = run_process(options);
    if (!r.ok()) fail("{} did not say which numbers its loops have: {}", program_.app, reason_of(r));
    SymbolTimes times = time_calls(bundle_);
    seconds = times.step;
    double all = 0;
    for (const auto &[symbol, time] : times.seconds) all += time;
    const Plan plan = Plan::parse(read_file(bundle_ / "plan.json"), "plan.json");
    std::map<std::string, double> roof = roof_of_symbols(plan);
    std::vector<SearchKernel> kernels;
    for (const json &k : json::parse(read_file(file))) {
        const std::string symbol = k.at("symbol");
        if (auto same = std::ranges::find(kernels, symbol, &SearchKernel::symbol); same != kernels.end()) {
            same->loops_of.push_back(k.at("loops_of"));
            continue;
        }
        SearchKernel s{.name = k.at("kernel"),
                       .symbol = symbol,
                       .algorithm = k.at("algorithm"),
                       .loops_of = {k.at("loops_of").get<std::string>()},
                       .share = all > 0 ? times.seconds[symbol] / all : 0};
        if (s.share > 0) s.roof = roof[symbol] / times.seconds[symbol];
        for (const json &n : k.at("tunables"))
            s.numbers.push_back({n.at("name"), n.at("value"), n.at("usual"), n.at("legal"), n.at("same_order")});
        if (s.share > 0) kernels.push_back(s);  // others are of evaluation alone
    }
    return kernels;
}

ProgramMeasurer::SymbolTimes ProgramMeasurer::time_calls(const fs::path &bundle) const {
    std::string refused;
    const std::string answer = ask_child(json{{"what", "profile"},
                                              {"bundle", bundle.string()},
                                              {"threads", threads_},
                                              {"accumulate", settings_.accumulate},
                                              {"scalars", scalars_of(settings_)}}
                                             .dump(),
                                         0, refused);
    if (!refused.empty()) fail("the step could not be timed: {}", refused);
    const json profile = json::parse(answer);
    return {profile.at("step"), profile.at("kernels")};
}

/// Seconds of a step that the roofline allows.
std::map<std::string, double> ProgramMeasurer::roof_of_symbols(const Plan &plan) const {
    std::map<std::string, double> roof;
    for (const PlanCall *c : step_calls(plan, settings_.accumulate))
        if (c->kernel >= 0) roof[plan.kernels[size_t(c->kernel)].symbol] += roof_.seconds(*c);
    return roof;
}

StepProfile ProgramMeasurer::profile(const std::string &lines) {
    const fs::path bundle = lines.empty() ? bundle_ : get_bundle(program_, request(lines), cache_, {}).folder;
    const SymbolTimes times = time_calls(bundle);
    const Plan plan = Plan::parse(read_file(bundle / "plan.json"), "plan.json");
    std::map<std::string, double> roof = roof_of_symbols(plan);
    std::map<std::string, KernelTime> by_name;  // calls of one symbol share its time
    for (const PlanCall *c : step_calls(plan, settings_.accumulate)) {
        if (c->kernel < 0) continue;
        const std::string name = without_numbers(c->name), &symbol = plan.kernels[size_t(c->kernel)].symbol;
        const auto time = times.seconds.find(symbol);
        const double part = roof[symbol] > 0 ? roof_.seconds(*c) / roof[symbol] : 0;
        KernelTime &k = by_name.try_emplace(name, KernelTime{.name = name}).first->second;
        k.seconds += part * (time == times.seconds.end() ? 0 : time->second), k.roof_seconds += roof_.seconds(*c);
    }
    StepProfile profile{.seconds = times.step, .kernels = {}};
    for (const auto &[name, k] : by_name) profile.kernels.push_back(k);
    return profile;
}

std::vector<std::string> ProgramMeasurer::moves() {
    return moves_of(Plan::parse(read_file(bundle_ / "plan.json"), "plan.json"));
}

std::vector<MadeKernel> ProgramMeasurer::make(const SearchKernel &kernel, const std::vector<std::string> &numbers) {
    const fs::path folder = work_ / fmt::format("made{}", made_++), file = work_ / "candidates.json";
    write_file_atomic(file, json{{"kernel", kernel.name}, {"candidates", numbers}}.dump());
    std::vector<MadeKernel> made(numbers.size());
    for (MadeKernel &m : made) m.refused = "the generator program ended before it was compiled";
    ProcessOptions options{.argv = {program_.path, "--candidates", file, "--bundle", folder, "--store",
                                    cache_.kernels(), "--time-limit", "60"},
                           .program = descriptor_of(program_),
                           .silence_limit = 1.5 * program_time_limit(),
                           .memory_limit = memory_share(1)};
    add_request(options.argv, request(""));
    options.on_line = [&](std::string_view line) {
        const json j = json::parse(line, nullptr, false);
        if (!j.is_object() || !j.contains("candidate")) return true;
        MadeKernel &m = made.at(j.at("candidate"));
        m = {(folder / j.at("candidate").dump()).string(), j.value("symbol", ""), j.value("error", "")};
        return true;
    };
    const CacheLock kernels = cache_.lock_kernels(true);
    const ProcessResult r = run_process(options);
    if (!r.ok())
        for (MadeKernel &m : made)
            if (!m.refused.empty() && m.symbol.empty()) m.refused = reason_of(r);
    return made;
}

/// In a child, which may do anything: the answer, or why there is none.
std::string ProgramMeasurer::ask_child(const std::string &job, double seconds, std::string &refused) const {
    const fs::path file = work_ / "job.json";
    write_file_atomic(file, job);
    const ProcessResult r = run_process(
        {.argv = {self_, "tune", "--measure", file}, .time_limit = 60 + 20 * seconds, .memory_limit = memory_share(1)});
    if (!r.ok()) refused = reason_of(r);
    return r.output;
}

Timing ProgramMeasurer::timing_of(const std::string &job, double seconds) const {
    Timing t;
    const std::string answer = ask_child(job, seconds, t.refused);
    if (!t.refused.empty()) return t;
    const json j = json::parse(answer, nullptr, false);
    if (!j.is_object()) return t.refused = "it wrote to the standard output", t;
    t.before = j.at("before"), t.after = j.at("after"), t.noise = j.at("noise"), t.same_bits = j.at("same_bits");
    t.busy = j.at("busy");
    return t;
}

Timing ProgramMeasurer::time_kernel(const SearchKernel &kernel, const MadeKernel &before, const MadeKernel &after) {
    auto place = [](const MadeKernel &m) { return json{{"folder", m.folder}, {"symbol", m.symbol}}; };
    return timing_of(json{{"what", "kernel"},
                          {"bundle", bundle_.string()},
                          {"kernel", kernel.symbol},
                          {"threads", threads_},
                          {"before", place(before)},
                          {"after", place(after)},
                          {"seconds", kernel_seconds}}
                         .dump(),
                     kernel_seconds);
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
        const fs::path first = get_bundle(program_, before, cache_, {}).folder,
                       second = get_bundle(program_, after, cache_, {}).folder;
        return timing_of(json{{"what", "step"},
                              {"before", first.string()},
                              {"after", second.string()},
                              {"threads", threads_},
                              {"accumulate", settings_.accumulate},
                              {"scalars", scalars_of(settings_)},
                              {"seconds", step_seconds}}
                             .dump(),
                         step_seconds);
    } catch (const Interrupted &) {
        throw;
    } catch (const Error &e) {  // the compiler refuses a line
        t.refused = e.what();
    }
    return t;
}

std::vector<std::string> moves_of(const Plan &plan) {
    std::vector<std::string> moves;
    auto add = [&](const std::string &line) {
        if (std::ranges::find(moves, line) == moves.end()) moves.push_back(line);
    };
    auto inner = [](const std::string &stage) { return stage.substr(5, stage.size() - 6); };
    for (const auto &[pass, calls] : plan.plans) {
        if (pass == "evaluate" || pass == "predict" || pass == "flush") continue;
        const PlanCall *last = nullptr;
        for (const PlanCall &c : calls) {
            for (const PlanCall::Stage &s : c.stages) {
                const std::string name = without_numbers(s.name);
                if (s.name.starts_with("next(")) {
                    const std::string w = without_numbers(inner(s.name));
                    if (s.placed == "root") add(fmt::format("s(d({})).compute_at(next({}))", w, w));
                    add(s.placed == "at forward" ? fmt::format("s(next({})).compute_root()", w)
                                                 : fmt::format("s(next({})).compute_at(forward)", w));
                    if (c.stages.size() > 1) add(fmt::format("s(d({})).compute_root()", w));
                } else if (s.placed.starts_with("at ") || s.placed.starts_with("with ")) {
                    add(fmt::format("s({}).compute_root()", name));
                }
            }
            if (last && !c.stages.empty() && !last->stages.empty() && !c.name.starts_with("next(")) {
                const std::string one = without_numbers(last->stages.back().name),
                                  other = without_numbers(c.stages.front().name);
                add(fmt::format("s({}).compute_with({})", other, one));
                add(fmt::format("s({}).compute_at({})", one, other));
            }
            last = &c;
        }
    }
    for (const PlanBuffer &b : plan.buffers)
        if (b.role == "parameter" && b.layout.panel)
            for (int width : {16, 32, 48, 64})
                if (width != b.layout.panel && b.shape.at(size_t(b.layout.dim)) % width == 0)
                    add(fmt::format("s.layout({}, panels({}, {}))", without_numbers(b.name), width, b.layout.dim));
    return moves;
}

}  // namespace cryolite
