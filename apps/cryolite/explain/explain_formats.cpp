#include "apps/cryolite/explain/explain_formats.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/tables/merged_rows.h"
#include "bundle/block_names.h"

namespace cryolite {

using nlohmann::json;

json formats_json(const Plan &plan) {
    json list = json::array();
    for (const PlanBuffer &b : plan.buffers)
        if ((b.role == Role::activation || b.role == Role::parameter) && !b.format_why.empty())
            list.push_back({{"name", b.name}, {"role", role_name(b.role)}, {"type", b.type}, {"why", b.format_why}});
    return list;
}

std::string formats_text(const Plan &plan) {
    std::vector<BlockRow> rows;
    std::vector<std::string> rest;
    for (const json &f : formats_json(plan)) {
        rest.push_back(fmt::format("{:8}  {}", f["type"].get<std::string>(), f["why"].get<std::string>()));
        rows.push_back({f["name"], rest.back()});
    }
    std::string text = rows.empty() ? "" : "\nformats of values and parameters, and what decides them:\n";
    for (const MergedRow &m : merged_rows(rows))
        text += fmt::format("  {:28} {}{}\n", m.name, m.count > 1 ? without_numbers(rest[m.first]) : rest[m.first],
                            m.count > 1 ? fmt::format(" ({})", m.count) : "");
    return text;
}

}  // namespace cryolite
