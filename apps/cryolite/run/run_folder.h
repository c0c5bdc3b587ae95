#pragma once
// The folder of a run: what it was made with, what it measured, its checkpoints and its result.

#include <array>
#include <optional>
#include <set>

#include "apps/cryolite/report/events.h"
#include "apps/cryolite/run/resume.h"
#include "runtime/files/metrics.h"
#include "runtime/files/plot.h"

namespace cryolite {

/// runs/gpt-20250131-235959, with a number where two begin in the same second.
fs::path default_folder(const std::string &app);

/// The run's result: these files of its newest checkpoint are copied beside config.toml.
constexpr std::array<const char *, 2> result_files = {"model.safetensors", "config.json"};
/// One more where a run saves the averages of its weights.
constexpr const char *averages_file = "model_ema.safetensors";
/// The files of the result that a checkpoint has.
std::vector<const char *> results_of(const Checkpoint &checkpoint);

/// What a checkpoint needs beside the trainer's tensors.
struct RunState {
    uint64_t step = 0, position = 0;
    uint64_t withheld = 0;  ///< this, `good` and `evaluate`: as in ResumePoint
    std::optional<uint64_t> good;
    bool evaluate = false;
    const TrainSettings *settings = nullptr;
    const RunData *data = nullptr;
    const Program *program = nullptr;
};

class RunFolder {
public:
    /// --out, or runs/APP-DATE; nothing is touched yet. `writes`: false in a process that leaves all of that to another
    /// one, and only reads.
    explicit RunFolder(const TrainSettings &settings, bool writes = true);
    /// Removes what `hold` has made, if the run never began.
    ~RunFolder();
    RunFolder(const RunFolder &) = delete;

    const fs::path &path() const { return path_; }

    /// Makes the folder, with its config.toml in it from the first moment on, or takes the one that is there without a
    /// change to its files. Locks it for this process. Errors: not empty without --resume, not a run's with it, in use,
    /// not writable.
    void hold(const TrainSettings &settings);

    /// As `find_resume_point`; `say` is called with a line for each checkpoint that was skipped.
    std::optional<ResumePoint> resume_point(const std::function<void(const std::string &)> &say);

    /// Is called when the run has its data and its weights. Removes what killed processes left, writes config.toml and
    /// vocab.json, cuts metrics.jsonl after the step of `point`, and makes the result that of this checkpoint.
    void begin(const TrainSettings &settings, const RunData &data, const std::optional<ResumePoint> &point);
    /// Errors: the line cannot be written now. It is written with the next one, or with the next checkpoint.
    void record(const StepEvent &e);
    void record(const EvalEvent &e);

    /// Writes all that was measured, then a checkpoint of these tensors and `state`.
    Checkpoint write(const RunState &state, std::vector<CheckpointFile> tensors);
    /// Comes after `write`: removes older checkpoints so that `keep` remain, and makes the result that of `written`.
    /// `keep` 0: none is removed, as while updates are withheld an older one may be the last that is good.
    void settle(const Checkpoint &written, int keep);
    void write_plot(const std::string &title) const;
    /// confusion.svg, of a classifier. `names`: of its classes, if they have any.
    void write_confusion(const std::string &title, const EvalEvent &e, const std::vector<std::string> &names) const;
    void write_sample(const std::string &text) const;

private:
    fs::path path_;
    const bool writes_;
    bool made_ = false, configured_ = false;  ///< whether `hold` made the folder, its config.toml
    bool began_ = false;
    int lock_ = -1;
    std::set<uint64_t> damaged_;  ///< steps whose checkpoints were skipped
    std::optional<MetricsWriter> metrics_;
    std::vector<std::string> unwritten_;  ///< lines that are not in metrics.jsonl yet
    std::string unsynced_;                ///< why lines may not be on the disk, which `settle` says
    LossPlot plot_;
    std::string begun_;  ///< the config.json that weights came with, or empty

    void make(const TrainSettings &settings);
    void lock(const fs::path &folder);
    void update(const char *name, const std::string &text) const;
    void copy_result(const Checkpoint &from, const char *name) const;
    void measured(const std::string &line);
    void write_metrics();
    void read_metrics(const std::vector<std::string> &more);
};

/// config.json beside model.safetensors: as the program says that other programs have it, else the model's parameters.
/// `begun`: that of --init, of which some keys are kept; empty: there is none.
std::string model_config(const TrainSettings &settings, const Program &program, const std::string &begun = "");

}  // namespace cryolite
