#pragma once
// Where a run goes on, and whether it may.

#include <functional>
#include <optional>

#include "apps/cryolite/inputs/run_data.h"
#include "runtime/files/checkpoint.h"

namespace cryolite {

/// The format of a checkpoint's state.json.
constexpr const char *run_state_format = "cryolite run 1";

/// Where a run goes on.
struct ResumePoint {
    Checkpoint checkpoint;
    uint64_t position = 0;                        ///< the index of the next micro-batch
    uint64_t withheld = 0;                        ///< updates withheld in a row, up to this step's
    std::optional<uint64_t> good;                 ///< step of the last checkpoint with `withheld` 0
    bool evaluate = false;                        ///< an evaluation is due after this step, and was not finished
    std::string data, program;                    ///< digests
    std::map<std::string, std::string> settings;  ///< as `flags_of` has them
    std::vector<std::string> metrics;             ///< lines that could not be written before the checkpoint
};

/// What is said where the program is not the one that wrote a checkpoint.
constexpr const char *program_changed =
    "note: the program, or the Cryolite that built it, has changed since the checkpoint was written";

/// The digest of the program that wrote a checkpoint; empty: its state.json does not say.
std::string program_of(const Checkpoint &checkpoint);

using Skipped = std::function<void(const Checkpoint &, const std::string &why)>;

/// The newest checkpoint of a run that is whole; `skipped` is called with each newer one that is not. Nothing: the run
/// has no checkpoint yet. Errors: it has some and none is whole (names each); a checkpoint cannot be read.
std::optional<ResumePoint> find_resume_point(const fs::path &run, const Skipped &skipped);

/// The warning if a run has no checkpoint: that the resume begins at step 0, and what that replaces.
std::string no_checkpoint_words(const fs::path &run);

/// Throws UsageError naming the first flag that a resume may not change (OnResume) and whose value is not the one that
/// the run was made with.
void check_same(const TrainSettings &settings, const RunData &data, const ResumePoint &point);

/// The flags that the resume changes, each as "--lr 0.001 -> 0.0003", by flag.
std::map<std::string, std::string> changed_flags(const TrainSettings &settings, const ResumePoint &point);

}  // namespace cryolite
