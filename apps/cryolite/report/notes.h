#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bundle/plan.h"

namespace cryolite {

/// A line for each layer whose loops nobody wrote: what scheduled it, and where to write them.
inline std::vector<std::string> schedule_notes(const Plan &plan) {
    std::map<std::string, std::vector<std::string>> forms;
    for (const PlanKernel &k : plan.kernels) {
        static const std::set<std::string> automatic = {"Adams2019", "Mullapudi2016", "plain loops"};
        if (k.layer.empty() || !automatic.count(k.loops)) continue;
        std::vector<std::string> &list = forms[k.layer];
        if (std::find(list.begin(), list.end(), k.form) == list.end()) list.push_back(k.form);
    }
    std::vector<std::string> notes;
    for (auto &[layer, list] : forms)
        notes.push_back(fmt::format("note: {} has no loop schedule for {}: scheduled automatically; write one and "
                                    "name it, s.loops<{}>(Form::{}, ...) in the model's schedule, or in "
                                    "schedules/{}/ with a line in its table.cpp",
                                    layer, fmt::join(list, ", "), layer, list[0],
                                    plan.device == "cpu" ? "cpu" : "gpu"));
    return notes;
}

}  // namespace cryolite
