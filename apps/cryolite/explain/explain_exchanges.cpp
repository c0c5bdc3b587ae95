#include "apps/cryolite/explain/explain_exchanges.h"

#include <algorithm>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/tables/merged_rows.h"
#include "apps/cryolite/report/units.h"
#include "bundle/block_names.h"
#include "runtime/exec/exchanges.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// What a worker sends at least: of a reduce-scatter or an all-gather all equal parts but one, else the whole array.
double sent_bytes(const Exchange::Part &p, int workers) {
    const bool together = p.kind == TransferKind::reduce_scatter || p.kind == TransferKind::all_gather;
    return double(p.bytes) * (together ? double(workers - 1) / workers : 1);
}

json exchange_json(const Plan &plan, const std::vector<PlanCall> &calls, const Exchange &e) {
    json parts = json::array();
    double all = 0, flops = 0;
    for (const Exchange::Part &p : e.parts) {
        const PlanBuffer &b = plan.buffers[size_t(p.buffer)];
        parts.push_back({{"kind", name_of(p.kind)}, {"of", b.name}, {"role", role_name(b.role)}, {"bytes", p.bytes}});
        all += sent_bytes(p, plan.workers);
    }
    double kernels = 0;  // calls of a worker: a call that one worker alone makes counts as 1 / workers
    for (size_t i = e.after; i < e.before; i++) {
        const double times = calls[i].kernel < 0 ? 0 : calls[i].worker < 0 ? 1 : 1.0 / plan.workers;
        kernels += times, flops += times * calls[i].flops;
    }
    return {{"parts", parts},
            {"bytes", e.bytes()},
            {"sent_bytes", int64_t(all)},
            {"after", calls[e.after - 1].name},
            {"before", e.before < calls.size() ? calls[e.before].name : ""},
            {"meanwhile", int(kernels)},
            {"flops_meanwhile", flops}};
}

/// "reduce-scatter d(h.*.mlp.c_fc.weight)", "broadcast 3 of norms"
std::string words_of_exchange(const json &e) {
    std::vector<std::pair<std::string, int>> counts;
    for (const json &p : e["parts"]) {
        const std::string name = without_numbers(p["of"]), role = p["role"];
        const std::string what = p["kind"].get<std::string>() + " " + (role == "gradient" ? "d(" + name + ")" : name);
        auto at = std::ranges::find(counts, what, &std::pair<std::string, int>::first);
        if (at == counts.end()) at = counts.insert(counts.end(), {what, 0});
        at->second++;
    }
    std::string words;
    for (auto &[what, count] : counts)
        words += fmt::format("{}{}{}", words.empty() ? "" : ", ", what, count > 1 ? fmt::format(" ({})", count) : "");
    return words;
}

}  // namespace

json exchanges_json(const Plan &plan) {
    json all = json::object();
    if (plan.workers == 1 || plan.device == "cpu") return all;
    for (auto &[name, calls] : plan.plans)
        for (const Exchange &e : exchanges(plan, calls)) all[name].push_back(exchange_json(plan, calls, e));
    return all;
}

void print_exchanges(const Plan &plan) {
    const json all = exchanges_json(plan);
    if (all.empty()) return;
    double most = 0, most_flops = 0;
    for (auto &[pass, list] : all.items())
        for (const json &e : list)
            most = std::max(most, e["bytes"].get<double>()),
            most_flops = std::max(most_flops, e["flops_meanwhile"].get<double>());
    const Unit byte = column_unit(most, "B"), flop = column_unit(most_flops, "FLOP");
    fmt::print("\nbetween the {} workers' GPUs, by NCCL in a stream of their own ({}: of all; sent: by each worker; "
               "meanwhile: kernel calls until\nit is waited for, and their {}):\n",
               plan.workers, byte.name, flop.name);
    for (auto &[pass, list] : all.items()) {
        std::vector<BlockRow> rows;
        std::vector<std::string> numbers, texts;
        double bytes = 0, sent = 0;
        for (const json &e : list) {
            bytes += e["bytes"].get<double>(), sent += e["sent_bytes"].get<double>();
            const std::string before = e["before"];
            numbers.push_back(fmt::format("{:9.3f} {:8.3f} {:6} {:9.2f}", e["bytes"].get<double>() / byte.size,
                                          e["sent_bytes"].get<double>() / byte.size, e["meanwhile"].get<int>(),
                                          e["flops_meanwhile"].get<double>() / flop.size));
            texts.push_back(fmt::format("{}; after {}, before {}", words_of_exchange(e), e["after"].get<std::string>(),
                                        before.empty() ? "the end" : before));
            rows.push_back({e["after"], numbers.back() + texts.back()});
        }
        fmt::print("  {}: {} in {} transfers, each worker sends {}\n", pass, human_bytes(uint64_t(bytes)), list.size(),
                   human_bytes(uint64_t(sent)));
        fmt::print("  times {:>9} {:>8}  calls {:>9}  what\n", byte.name, "sent", flop.name);
        for (const MergedRow &l : merged_rows(rows))
            fmt::print("  {:5} {}  {}\n", l.count, numbers[l.first],
                       l.count == 1 ? texts[l.first] : without_numbers(texts[l.first]));
    }
}

}  // namespace cryolite
