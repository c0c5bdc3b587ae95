#include "apps/cryolite/explain/explain_diff.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/loops/port_limit.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "bundle/block_names.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

using ByKernel = std::map<std::string, KernelWork>;

ByKernel work_of(const Plan &plan, int accumulate, const Roof &roof, const CostModel &model) {
    ByKernel work;
    for (const PlanCall *c : step_calls(plan, accumulate)) {
        const CallCost cost = model.cost(plan, *c);
        KernelWork w{.calls = 1,
                     .measured = cost.measured,
                     .flops = c->flops,
                     .bytes = double(c->bytes),
                     .roof_seconds = roof.seconds(*c),
                     .seconds = cost.seconds};
        if (c->kernel >= 0) w.keys = {cost_key(plan.kernels[size_t(c->kernel)])};
        work[without_numbers(c->name)].add(w);
    }
    return work;
}

KernelWork total(const ByKernel &work) {
    KernelWork all;
    for (const auto &[name, w] : work) all.add(w);
    return all;
}

int64_t memory_of(const Plan &plan) {
    int64_t bytes = 0;
    for (const auto &[role, of_role] : plan.memory()) bytes += of_role;
    return bytes;
}

json json_of(const KernelWork &w) {
    return {{"calls", w.calls},         {"flops", w.flops},     {"bytes", w.bytes},
            {"roof_s", w.roof_seconds}, {"seconds", w.seconds}, {"measured_calls", w.measured}};
}

/// How many kernels of a plan have no compiled code in the cache, so that their inner loops cannot be read.
int64_t never_compiled(const Plan &plan, const Cache &cache) {
    std::error_code ignored;
    return std::ranges::count_if(plan.kernels, [&](const PlanKernel &k) {
        return !k.symbol.empty() && !fs::exists(cache.kernel(k.symbol), ignored);
    });
}

std::string line(const std::string &name, const KernelWork &a, const KernelWork &b) {
    auto change = [](double x, double y) { return x > 0 ? fmt::format("{:+6.1f}%", 100 * (y / x - 1)) : "    new"; };
    auto time = [](const KernelWork &w) {
        return fmt::format("{}{:.3f}", w.measured < w.calls ? "~" : "", 1e3 * w.seconds);
    };
    return fmt::format("{:5} {:5} {:9.3f} {:9.3f} {} {:>10} {:>10} {}  {}\n", a.calls, b.calls, 1e-6 * a.bytes,
                       1e-6 * b.bytes, change(a.bytes, b.bytes), time(a), time(b), change(a.seconds, b.seconds), name);
}

}  // namespace

void KernelWork::add(const KernelWork &w) {
    calls += w.calls, measured += w.measured, flops += w.flops, bytes += w.bytes;
    roof_seconds += w.roof_seconds, seconds += w.seconds;
    keys.insert(w.keys.begin(), w.keys.end());
}

StepDifference difference_of(const Plan &before, const Plan &after, int accumulate, const Roof &roof,
                             const CostModel::Measured &measured, const CostModel::Limit &limit) {
    CostModel model(roof, measured, limit);
    for (const Plan *plan : {&before, &after}) model.learn(*plan, step_calls(*plan, accumulate));
    ByKernel a = work_of(before, accumulate, roof, model), b = work_of(after, accumulate, roof, model);
    StepDifference d{.rows = {}, .before = total(a), .after = total(b)};
    for (const auto &[name, w] : b) a.try_emplace(name);  // kernels of either step
    for (const auto &[name, w] : a)
        if (!(w == b[name])) d.rows.push_back({name, w, b[name]});
    std::ranges::stable_sort(d.rows, std::ranges::greater{},
                             [](const StepDifference::Row &r) { return std::abs(r.after.seconds - r.before.seconds); });
    return d;
}

std::string text_of(const StepDifference &d) {
    std::string text = "calls            MB                        ms\n";
    for (const StepDifference::Row &r : d.rows) text += line(r.name, r.before, r.after);
    text += line(d.rows.empty() ? "the whole step: no kernel differs" : "the whole step", d.before, d.after);
    const int calls = d.before.calls + d.after.calls, measured = d.before.measured + d.after.measured;
    return text +
           fmt::format(
               "{} of {} calls have a time that was measured on this machine, once: it may be off by a few percent{}\n",
               measured, calls, measured < calls ? "; ~: predicted by the roofline and by what such kernels took" : "");
}

int explain_difference(TrainSettings s, const Request &request, const std::vector<std::string> &files) {
    if (s.device != "cpu")
        fail_usage("--diff compares predicted times, but there is no prediction for --device {}: leave --device out to "
                   "compare steps on the CPU",
                   s.device);
    s.tuned = "none";
    std::vector<Plan> plans;
    for (const std::string &file : files) {
        s.schedule = file;
        read_lines(s, "--diff");
        BundleRequest wanted = bundle_request(s);
        wanted.any_size = true;
        plans.push_back(step_plan(request.program, wanted));
    }
    const int threads = threads_of_worker(s, core_numbers());
    const Plan &fastest = plans[plans[1].multiplies_by_tiles() ? 1 : 0];  // one roofline for both
    const Roof roof{measure_peak(s, fastest, threads), measure_bandwidth(threads)};
    const Cache cache(s.cache);
    std::optional<SearchRecords> records;
    if (fs::exists(SearchRecords::file(cache.folder())))
        records.emplace(cache.folder(), search_machine(threads, s.device));
    const auto measured = [&](const std::string &key) { return records ? records->time_of(key) : std::nullopt; };
    const StepDifference d = difference_of(plans[0], plans[1], s.accumulate, roof, measured, PortLimit(cache));
    const int64_t memory_a = memory_of(plans[0]), memory_b = memory_of(plans[1]);
    if (s.json) {
        json j = {{"files", files},
                  {"step", {json_of(d.before), json_of(d.after)}},
                  {"memory", {memory_a, memory_b}},
                  {"kernels", json::array()}};
        for (const StepDifference::Row &r : d.rows)
            j["kernels"].push_back({{"name", r.name}, {"before", json_of(r.before)}, {"after", json_of(r.after)}});
        fmt::print("{}\n", j.dump(2));
        return 0;
    }
    fmt::print("{} -> {}; memory of a step {} -> {}\n{}", files[0], files[1], human_bytes(uint64_t(memory_a)),
               human_bytes(uint64_t(memory_b)), text_of(d));
    for (size_t i = 0; i < plans.size(); i++)
        if (const int64_t count = never_compiled(plans[i], cache))
            fmt::print("{} kernels of {} were never compiled here: their predicted times ignore their inner loops "
                       "until `cryolite explain {} --schedule {}` compiles them\n",
                       count, files[i], request.app, files[i]);
    return 0;
}

}  // namespace cryolite
