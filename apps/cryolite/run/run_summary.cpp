#include "apps/cryolite/run/run_summary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/cli/flags.h"
#include "apps/cryolite/run/find_run.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

uint64_t RunSummary::step() const { return losses.train.empty() ? 0 : uint64_t(losses.train.back().step); }

std::string RunSummary::value(const std::string &flag) const {
    const auto found = config.find(flag);
    return found == config.end() ? "" : found->second;
}

uint64_t read_losses(const std::string &metrics, LossPlot &losses, std::vector<double> *rates) {
    uint64_t damaged = 0;
    for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const json j = json::parse(metrics.begin() + long(begin), metrics.begin() + long(end), nullptr, false);
        damaged += !j.is_object();
        if (!j.is_object() || !j.contains("step") || !j["step"].is_number()) continue;
        auto number = [&](const char *name) { return j.contains(name) && j[name].is_number(); };
        if (number("loss")) losses.train.push_back({j["step"], j["loss"]});
        if (number("val_loss"))
            losses.validation.push_back({j["step"], j["val_loss"], number("batches") ? double(j["batches"]) : 0});
        if (rates && number("tok_s")) rates->push_back(j["tok_s"]);
    }
    return damaged;
}

RunSummary summarize_run(const fs::path &folder) {
    require_run(folder);
    RunSummary run;
    run.path = folder;
    for (const auto &[flag, given] : read_config(folder / "config.toml", Origin::config, list_mark))
        run.config[flag] = given.text;
    const fs::path metrics = folder / "metrics.jsonl";
    if (!is_there(metrics)) {
        run.changed = fs::last_write_time(folder);
        return run;
    }
    run.changed = fs::last_write_time(metrics);
    std::vector<double> rates;
    run.damaged = read_losses(read_file(metrics), run.losses, &rates);
    for (const LossPoint &p : run.losses.validation)  // losses of other parts of the data are not comparable
        if (p.batches == run.losses.validation.back().batches)
            run.best_val_loss = std::min(run.best_val_loss.value_or(p.loss), p.loss);
    if (!rates.empty()) {
        const auto middle = rates.begin() + long(rates.size() / 2);
        std::nth_element(rates.begin(), middle, rates.end());
        run.tok_s = *middle;
    }
    return run;
}

}  // namespace cryolite
