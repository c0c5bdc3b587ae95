#pragma once
// Ends a run whose values are no longer finite: reports the first such value, and the checkpoint to go on from.

#include <optional>

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// Where a run can go back to.
struct LastCheckpoint {
    std::optional<uint64_t> step;  ///< its step; empty: none was written, so the run goes back to its beginning
    std::optional<uint64_t> good;  ///< the step of the last checkpoint that was not written after withheld updates
    uint64_t position = 0;         ///< the index of the next micro-batch, when the checkpoint was written
};

/// What `end_diverged` has to know of the run.
struct DivergedRun {
    Trainer &trainer;
    const RunData &data;
    const TrainSettings &settings;
    const Request &request;
    Progress &progress;
    const fs::path &folder;
    const LastCheckpoint &last;
    uint64_t step;            ///< the step at which the run ends
    bool evaluating = false;  ///< it ends in the evaluation after that step
    uint64_t next = 0;        ///< the index of the next micro-batch
    std::string resume;       ///< the command line that resumes the run
};

/// Throws an Error that says why the run ends, which value was the first that was not finite (if it is found), and how
/// to go on from the checkpoint of step `from`. The search does the steps since the last checkpoint again, so the
/// trainer must not be used afterwards.
[[noreturn]] void end_diverged(const DivergedRun &run, const std::string &why, std::optional<uint64_t> from);

/// Loads the weights and the optimizer's state of a checkpoint.
void read_tensors(Trainer &trainer, const fs::path &checkpoint);

}  // namespace cryolite
