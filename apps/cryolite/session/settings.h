#pragma once
// What a run does: every flag understood and checked.

#include <map>
#include <string>

#include "apps/cryolite/cli/flags.h"
#include "runtime/collective/watch.h"
#include "runtime/plan/plan.h"
#include "runtime/train/rate.h"

namespace cryolite {

struct TrainSettings {
    std::string app, preset;
    bool text = true;  ///< a model of text, else of the rows of a table
    bool numbers_wanted = false;  ///< of each row it predicts numbers, not a class
    /// The model's parameters by name, as text. Those that depend on the data (vocab, classes,
    /// positions) are added by `open_data`.
    std::map<std::string, std::string> params;
    int accumulate = 1;
    double clip = 0;  ///< 0: off
    std::string precision = "fp32";
    std::string freeze = "none";  ///< patterns of names of parameters that are not trained: "wte.weight,h.*.mlp.*"
    std::string optimizer, update = "auto", recompute = "auto", dialect = "halide", device = "cpu", group = "auto";
    int head_rows = -1;   ///< of a block of the head and its loss; 0: whole, -1: whole while that is small
    uint64_t budget = 0;  ///< bytes that a step may take; 0: any
    std::string memory_note;  ///< what was chosen for memory, or why nothing fits; empty: it fits as it is
    LearningRate rate;
    /// The optimizer's other numbers that were given: weight-decay, beta1, beta2.
    std::map<std::string, double> numbers;
    int workers = 1;  ///< data-parallel replicas: threads of this process, or all processes of mpirun
    int threads = 0;  ///< of each worker; 0: all cores, divided among workers
    int restarts = 0;                     ///< after failures
    std::string launch;                   ///< what starts the workers as processes, with {workers} for their number
    double patience = default_patience;  ///< seconds that a worker may give no sign of life
    uint64_t seed = 1;
    fs::path data, validation, init, out, cache;
    std::string tokenizer = "char";
    bool sequential = false, resume = false, json = false;
    uint64_t checkpoint_every = 500, eval_every = 250;
    int keep = 2;
    uint64_t give_up_after = 50;  ///< updates withheld in a row; 0: never
    bool profile = false, peers = false;  ///< bench

    uint64_t steps() const { return rate.steps; }
    /// A parameter of the model as a number; `otherwise` where the model has none of this name.
    int param(const std::string &name, int otherwise) const;
};

/// Throws UsageError for every value that cannot be.
TrainSettings understand(const Request &request);

/// After the plan is there: fills in the optimizer's own numbers where none were given. Throws
/// UsageError for a number that was chosen and that the optimizer does not have.
void complete(TrainSettings &settings, const Values &values, const Plan &plan);

/// Throws UsageError for a file whose name config.toml cannot hold, because it is not UTF-8.
void check_names(const TrainSettings &settings);

/// The first line of every `config_toml`: by it the folder of a run is known for one.
constexpr std::string_view config_heading = "# What this run was made with; cryolite train --config FILE does it again.";

/// The settings as a file for --config; without numbers that are not known yet.
std::string config_toml(const TrainSettings &settings);

/// What a run is made with, but for its files: flag -> value as text. "nan": not known yet.
std::map<std::string, std::string> flags_of(const TrainSettings &settings);

}  // namespace cryolite
