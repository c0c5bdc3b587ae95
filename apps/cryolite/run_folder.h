#pragma once
// The folder of a run: what it was made with, what it measured, its checkpoints and its result.

#include <optional>
#include <set>

#include "apps/cryolite/events.h"
#include "apps/cryolite/run_data.h"
#include "runtime/checkpoint.h"
#include "runtime/metrics.h"
#include "runtime/plot.h"
#include "runtime/trainer.h"

namespace cryolite {

/// runs/gpt-20250131-235959, with a number where two begin in the same second.
fs::path default_folder(const std::string &app);

/// Where a run goes on.
struct ResumePoint {
    fs::path checkpoint;
    uint64_t step = 0;
    uint64_t position = 0;                        ///< the next micro-batch
    uint64_t withheld = 0;                        ///< updates in a row, up to this step's
    std::optional<uint64_t> good;                 ///< step of the last checkpoint at which none was
    std::string data, program;                    ///< digests
    std::map<std::string, std::string> settings;  ///< as `flags_of` has them
};

/// What a checkpoint needs beside the trainer's tensors.
struct RunState {
    uint64_t step = 0, position = 0;
    uint64_t withheld = 0;         ///< as a ResumePoint has them
    std::optional<uint64_t> good;
    const TrainSettings *settings = nullptr;
    const RunData *data = nullptr;
    const Program *program = nullptr;
};

class RunFolder {
public:
    /// Makes --out, or runs/APP-DATE, and holds it for this process. Errors: not empty without
    /// --resume, in use, not writable.
    /// `writes`: false in a process that leaves all of that to another one, and only reads.
    explicit RunFolder(const TrainSettings &settings, bool writes = true);
    ~RunFolder();  ///< an empty folder, of a run that never began, is removed
    RunFolder(const RunFolder &) = delete;

    const fs::path &path() const { return path_; }

    /// The newest checkpoint that is whole; `skipped` hears of each that is not.
    std::optional<ResumePoint>
    resume_point(const std::function<void(const std::string &)> &skipped);

    /// Writes config.toml and vocab.json and opens metrics.jsonl, which keeps what it has up to
    /// `step`.
    void begin(const TrainSettings &settings, const RunData &data, uint64_t step);
    void record(const StepEvent &e);
    void record(const EvalEvent &e);

    /// A checkpoint, and the run's model.safetensors and config.json, which are the newest one's. Older ones are
    /// removed, unless updates are withheld: one of them may be the last that can be used.
    fs::path write(Trainer &trainer, const RunState &state);
    void write_plot(const std::string &title) const;
    void write_sample(const std::string &text) const;

private:
    fs::path path_;
    const bool writes_;
    int lock_ = -1;
    std::set<uint64_t> damaged_;  ///< steps whose checkpoints were skipped
    bool began_ = false;
    std::optional<MetricsWriter> metrics_;
    LossPlot plot_;

    void hold(bool resume);
    void read_metrics();
};

/// Throws UsageError naming the first flag that a resume may not change (OnResume) and whose value is not the one that
/// the run was made with. Numbers that are not known yet are not compared.
void check_same(const TrainSettings &settings, const RunData &data, const ResumePoint &point);

/// Those that it may change and has: "--lr 0.001 -> 0.0003", by flag.
std::map<std::string, std::string> changed_flags(const TrainSettings &settings, const ResumePoint &point);

/// config.json beside model.safetensors: Hugging Face's for GPT-2, else the model's parameters.
std::string model_config(const TrainSettings &settings, const Program &program);

}  // namespace cryolite
