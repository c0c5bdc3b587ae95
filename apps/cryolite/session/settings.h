#pragma once
// What a run does: every flag understood and checked.

#include <map>
#include <string>

#include "apps/cryolite/cli/flags.h"
#include "bundle/step_config.h"
#include "runtime/collective/watch.h"
#include "runtime/train/rate.h"

namespace cryolite {

/// A step's settings and a run's: each member that a flag sets is a row of a table: bundle/step_config.cpp,
/// flag_table.cpp.
struct TrainSettings : StepConfig {
    std::string app, preset;
    bool text = true;             ///< a model of text, else of the rows of a table
    bool numbers_wanted = false;  ///< of each row it predicts numbers, not a class
    /// The model's parameters by name, as text. Those that depend on the data (vocab, classes,
    /// positions) are added by `open_data`.
    std::map<std::string, std::string> params;
    LearningRate rate;                      ///< nan: the optimizer has none
    std::map<std::string, double> numbers;  ///< the optimizer's others: weight-decay, beta1, ...
    std::string memory_note;             ///< what was chosen for memory, or why nothing fits; empty: it fits as it is
    int threads = 0;                     ///< of each worker; 0: all cores, divided among workers
    int restarts = 0;                    ///< how often the run is started again after failures
    std::string launch;                  ///< what starts the workers as processes, with {workers} for their number
    double patience = default_patience;  ///< seconds that a worker may give no sign of life
    uint64_t seed = 1;
    fs::path data, validation, init, schedule, out, cache, trace;
    std::string lines_from = "--lines";  ///< what errors call the lines, where they are of no file
    std::string tokenizer = "char", rename = "none";
    int shift = 0;      ///< how far training images are moved at most, in pixels
    bool flip = false;  ///< half of the training images are mirrored
    bool sequential = false, resume = false, json = false;
    uint64_t checkpoint_every = 500, eval_every = 250, eval_batches = 0;
    bool evaluate_ema = false, save_ema = false;
    int keep = 2;
    uint64_t give_up_after = 50;          ///< updates withheld in a row; 0: never
    bool profile = false, peers = false;  ///< bench
    double search_seconds = 0;            ///< tune
    bool same_bits = false, from_scratch = false, show = false, forget = false;
    int check_lines = 0;  ///< tune --check-model
    fs::path export_lines, report;

    uint64_t steps() const { return rate.steps; }
    /// A parameter of the model as a number; `otherwise` where the model has none of this name.
    int param(const std::string &name, int otherwise) const;
    /// The tokenizer's file or, if a run is resumed and the file is gone, the run's own copy.
    fs::path tokenizer_file() const;
};

/// The text of `schedule`'s file, if there is one, becomes `lines`; `flag`: what named it. Throws UsageError: it cannot
/// be read, or is no text of lines.
void read_lines(TrainSettings &settings, const std::string &flag = "--schedule");

/// The settings that a request means. Throws UsageError for a value that is not possible.
TrainSettings understand(const Request &request);

/// Throws UsageError for a file whose name config.toml cannot hold, because it is not UTF-8.
void check_names(const TrainSettings &settings);

/// The first line of every `config_toml`, by which the folder of a run is recognised.
constexpr std::string_view config_heading =
    "# What this run was made with; cryolite train --config FILE does it again.";

/// The settings as a file for --config.
std::string config_toml(const TrainSettings &settings);

/// Calls `visit` with every setting that a run keeps: parameters of the model, the step's and the run's,
/// the optimizer's numbers.
void for_each_setting(const TrainSettings &settings, const std::function<void(const Flag &, ValueRef)> &visit);

/// What a run is made with, except its data: flag -> value as text.
std::map<std::string, std::string> flags_of(const TrainSettings &settings);

}  // namespace cryolite
