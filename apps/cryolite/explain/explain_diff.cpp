#include "apps/cryolite/explain/explain_diff.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cryolite/report/kernel_times.h"
#include "apps/cryolite/report/roof.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/exec/peak.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// What equal kernels of equal blocks do in one step.
struct Work {
    int calls = 0;
    double flops = 0, bytes = 0, seconds = 0;

    void add(const Work &w) { calls += w.calls, flops += w.flops, bytes += w.bytes, seconds += w.seconds; }
    bool operator==(const Work &) const = default;
};

using ByKernel = std::map<std::string, Work>;

ByKernel work_of(const Plan &plan, int accumulate, const Roof &roof) {
    ByKernel work;
    for (const PlanCall *c : step_calls(plan, accumulate))
        work[without_numbers(c->name)].add({1, c->flops, double(c->bytes), roof.seconds(*c)});
    return work;
}

Work total(const ByKernel &work) {
    Work all;
    for (const auto &[name, w] : work) all.add(w);
    return all;
}

int64_t memory_of(const Plan &plan) {
    int64_t bytes = 0;
    for (const auto &[role, of_role] : plan.memory()) bytes += of_role;
    return bytes;
}

json json_of(const Work &w) {
    return {{"calls", w.calls}, {"flops", w.flops}, {"bytes", w.bytes}, {"roof_s", w.seconds}};
}

void print_line(const std::string &name, const Work &a, const Work &b) {
    auto change = [](double x, double y) { return x > 0 ? fmt::format("{:+6.1f}%", 100 * (y / x - 1)) : "    new"; };
    fmt::print("{:5} {:5} {:9.3f} {:9.3f} {} {:9.3f} {:9.3f} {}  {}\n", a.calls, b.calls, 1e-6 * a.bytes,
               1e-6 * b.bytes, change(a.bytes, b.bytes), 1e3 * a.seconds, 1e3 * b.seconds, change(a.seconds, b.seconds),
               name);
}

}  // namespace

int explain_difference(TrainSettings s, const Request &request, const std::vector<std::string> &files) {
    s.tuned = "none";
    std::vector<Plan> plans;
    for (const std::string &file : files) {
        s.schedule = file;
        read_lines(s);
        BundleRequest wanted = bundle_request(s);
        wanted.any_size = true;
        plans.push_back(step_plan(request.program, wanted));
    }
    const int threads = threads_of_worker(s, core_numbers());
    const Roof roof{measure_peak(s, threads), measure_bandwidth(threads)};
    ByKernel a = work_of(plans[0], s.accumulate, roof), b = work_of(plans[1], s.accumulate, roof);
    const Work all_a = total(a), all_b = total(b);
    const int64_t memory_a = memory_of(plans[0]), memory_b = memory_of(plans[1]);
    for (const auto &[name, w] : b) a.try_emplace(name);  // those of either
    std::vector<std::string> names;
    for (const auto &[name, w] : a)
        if (!(w == b[name])) names.push_back(name);
    std::ranges::sort(names, std::greater{},
                      [&](const std::string &n) { return std::abs(b[n].seconds - a[n].seconds); });
    if (s.json) {
        json j = {{"files", files},
                  {"step", {json_of(all_a), json_of(all_b)}},
                  {"memory", {memory_a, memory_b}},
                  {"kernels", json::array()}};
        for (const std::string &n : names)
            j["kernels"].push_back({{"name", n}, {"before", json_of(a[n])}, {"after", json_of(b[n])}});
        fmt::print("{}\n", j.dump(2));
        return 0;
    }
    fmt::print("{} -> {}; memory of a step {} -> {}\n", files[0], files[1], human_bytes(uint64_t(memory_a)),
               human_bytes(uint64_t(memory_b)));
    fmt::print("calls            MB                        ms at the machine's roofs\n");
    for (const std::string &n : names) print_line(n, a[n], b[n]);
    print_line(names.empty() ? "the whole step: no kernel differs but in its loops" : "the whole step", all_a, all_b);
    return 0;
}

}  // namespace cryolite
