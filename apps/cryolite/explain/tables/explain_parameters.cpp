#include "apps/cryolite/explain/tables/explain_parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "apps/cryolite/explain/tables/merged_rows.h"
#include "bundle/block_names.h"
#include "bundle/entries.h"

namespace cryolite {

namespace {

/// Who computes an update of which each worker may have a part.
std::string shards_in_words(const Plan &plan, const std::vector<PlanCall> &calls, const std::string &update) {
    std::set<int> owners;
    for (const PlanCall &c : calls)
        if (std::ranges::count(c.stages, update, &PlanCall::Stage::name) > 0) owners.insert(c.worker);
    if (plan.workers == 1) return "in shards";
    return owners.size() == 1 ? "by one worker, for all" : "in shards, by workers";
}

}  // namespace

ParameterUpdate update_of(const Plan &plan, const std::string &parameter) {
    if (const int b = plan.find(Role::parameter, parameter); b >= 0 && !plan.buffers[size_t(b)].frozen.empty())
        return {"none, it is frozen", plan.buffers[size_t(b)].frozen};
    for (auto &[pass, calls] : plan.plans)
        for (const PlanCall &c : calls) {
            const PlanCall::Stage *update = nullptr;
            bool computes = false;
            for (const PlanCall::Stage &s : c.stages) {
                if (s.name == "next(" + parameter + ")") update = &s;
                computes |= s.name == "d(" + parameter + ")";
            }
            if (!update) continue;
            if (c.worker >= 0 && pass == entry::step) return {shards_in_words(plan, calls, update->name), update->why};
            const bool waits = pass == entry::deferred || pass == entry::flush;
            return {computes              ? "with its gradient"
                    : waits               ? "forward, at its next use"
                    : c.stages.size() > 1 ? "with other updates"
                                          : "separate",
                    update->why};
        }
    return {};
}

std::string layout_words(const PlanBuffer &b) {
    return b.layout.panel ? fmt::format("panels({}, {})", b.layout.panel, b.layout.dim) : "row_major";
}

std::string shape_words(const std::vector<int> &extents) {
    return extents.empty() ? "one value" : fmt::format("{}", fmt::join(extents, " x "));
}

std::string parameters_text(const Plan &plan) {
    std::vector<BlockRow> rows;
    std::vector<std::pair<std::string, std::string>> parts;  // of a row, before and after its count
    for (const PlanBuffer &b : plan.buffers)
        if (b.role == Role::parameter) {
            const auto [place, why] = update_of(plan, b.name);
            parts.emplace_back(fmt::format("{:14}", shape_words(b.shape)),
                               fmt::format("{:8} {:26} {}{}", b.type, layout_words(b), place,
                                           why.empty() ? "" : fmt::format(" ({})", why)));
            rows.push_back({b.name, parts.back().first + parts.back().second});
        }
    std::string text = "\nparameters (extents innermost first), their layout and where they are updated:\n";
    std::vector<MergedRow> merged = merged_rows(rows);
    std::ranges::stable_sort(merged, {}, [&](const MergedRow &m) { return without_numbers(rows[m.first].name); });
    for (const MergedRow &m : merged) {
        const auto &[shape, rest] = parts[m.first];
        text +=
            fmt::format("  {:28} {} {:3}  {}\n", m.name, shape, m.count, m.count > 1 ? without_numbers(rest) : rest);
    }
    return text;
}

}  // namespace cryolite
