#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bundle/entries.h"
#include "bundle/plan.h"
#include "runtime/train/rate.h"

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

/// The layer that made the model's output, as the plan names it; empty: it does not say.
inline std::string maker_of_output(const Plan &plan) {
    for (const char *pass : {entry::forward, entry::predict}) {
        const auto at = plan.plans.find(pass);
        if (at == plan.plans.end()) continue;
        for (const PlanCall &c : at->second) {
            bool makes = false;
            for (size_t i = 0; i < c.args.size(); i++) makes |= c.args[i].buffer == plan.output && plan.writes(c, i);
            std::string name;  // the last that is no loss: a loss may share its kernel
            for (const PlanCall::Stage &s : c.stages)
                if (std::ranges::count(plan.ids, s.name, &PlanIds::loss) == 0) name = s.name;
            if (makes) return name;
        }
    }
    return "";
}

/// A warning, if a model's output has another number of scores than there are tokens or classes. `known`: how many of
/// these the data or the tokenizer have. It is no error, as a vocabulary may be padded, and as the program itself
/// refuses too few scores where a loss reads them. Empty: the numbers are equal, or not known.
inline std::string scores_warning(const Plan &plan, int known, const std::string &things) {
    if (known <= 0 || plan.output < 0 || plan.buffers[size_t(plan.output)].shape.empty()) return "";
    const int made = plan.buffers[size_t(plan.output)].shape[0];
    if (made == known) return "";
    const std::string maker = maker_of_output(plan);
    return fmt::format("warning: the model's output{} has {} values for each row, and there are {} {}: {}",
                       maker.empty() ? "" : fmt::format(", which [{}] makes,", maker), made, known, things,
                       made > known
                           ? "that is well where a head is padded on purpose, else forward() has forgotten its head"
                           : "has forward() forgotten its head?");
}

/// A note, if a run ends while its learning rate still rises. Empty: it does not.
inline std::string warmup_note(const LearningRate &rate) {
    if (rate.warmup < rate.steps) return "";
    return fmt::format(
        "note: the learning rate rises for {} steps, of which the run has {}, and ends at {:.3g} instead "
        "of {:.3g}: give a shorter --warmup",
        rate.warmup, rate.steps, rate.at(rate.steps - 1), rate.high);
}

}  // namespace cryolite
