#include "apps/cryolite/explain/explain_formats.h"

#include <algorithm>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
    std::vector<std::pair<std::string, int>> lines;
    for (const json &f : formats_json(plan)) {
        const std::string name = f["name"], type = f["type"], why = f["why"];
        const std::string line = fmt::format("  {:28} {:8}  {}", without_numbers(name), type, without_numbers(why));
        auto at = std::ranges::find(lines, line, &std::pair<std::string, int>::first);
        if (at == lines.end()) at = lines.insert(lines.end(), {line, 0});
        at->second++;
    }
    std::string text = lines.empty() ? "" : "\nformats of values and parameters, and what decides them:\n";
    for (auto &[line, count] : lines) text += fmt::format("{}{}\n", line, count > 1 ? fmt::format(" ({})", count) : "");
    return text;
}

}  // namespace cryolite
