#include "apps/cryolite/explain/tables/explain_groups.h"

#include <fmt/ranges.h>

#include "apps/cryolite/report/progress.h"
#include "runtime/io/error.h"

namespace cryolite {

nlohmann::json group_json(const Plan &plan, const PlanGroup &g) {
    nlohmann::json j = {
        {"asked", g.texts}, {"settings", nlohmann::json::object()}, {"parameters", nlohmann::json::array()}};
    for (const PlanGroup::Setting &s : g.settings) j["settings"][s.scalar] = {{s.times ? "times" : "value", s.value}};
    for (int w : g.parameters) j["parameters"].push_back(plan.buffers[size_t(w)].name);
    return j;
}

void print_groups(const Plan &plan) {
    if (!plan.groups.empty())
        fmt::print("\ngroups of parameters, at rates or decays of their own (biases and gains do not decay):\n");
    for (const PlanGroup &g : plan.groups) {
        std::string settings;
        int64_t elements = 0;
        for (const PlanGroup::Setting &s : g.settings)
            settings +=
                fmt::format("{}{} {}{}", settings.empty() ? "" : ", ", s.scalar, s.value, s.times ? " times" : "");
        for (int w : g.parameters) elements += plan.buffers[size_t(w)].elements();
        fmt::print("  {:36} {} parameters in {} tensors, by {}\n", settings, grouped(uint64_t(elements)),
                   g.parameters.size(), fmt::join(g.texts, " and "));
    }
}

}  // namespace cryolite
