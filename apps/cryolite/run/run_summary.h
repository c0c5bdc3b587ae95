#pragma once
// What the folder of a run says of it: its configuration and what it measured.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/files/plot.h"
#include "runtime/io/files.h"

namespace cryolite {

struct RunSummary {
    fs::path path;
    std::map<std::string, std::string> config;  ///< config.toml: flag -> value
    LossPlot losses;                            ///< metrics.jsonl
    std::optional<double> best_val_loss;
    std::optional<double> tok_s;  ///< median of the steps
    fs::file_time_type changed;   ///< of metrics.jsonl
    uint64_t damaged = 0;         ///< lines of metrics.jsonl that are no JSON

    uint64_t step() const;  ///< the last one measured; 0: none
    std::string value(const std::string &flag) const;
};

/// Errors: no run, a file that cannot be read. Lines of metrics that are no JSON are counted and left out; the last
/// one may be half written, by a run at work.
RunSummary summarize_run(const fs::path &folder);

/// Adds the losses of metrics.jsonl, a JSON object a line, to `losses`, and its rates, in tokens a second, to `rates`.
/// Returns how many lines are no JSON object.
uint64_t read_losses(const std::string &metrics, LossPlot &losses, std::vector<double> *rates = nullptr);

}  // namespace cryolite
