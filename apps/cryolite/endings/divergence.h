#pragma once
// How a run ends whose values are no longer finite: which was the first, and where to go on.

#include <optional>

#include "apps/cryolite/report/progress.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// Where a run can go back to.
struct LastCheckpoint {
    std::optional<uint64_t> step;  ///< empty: none was written, so it is the run's beginning
    std::optional<uint64_t> good;  ///< of the last one that no withheld update preceded
    uint64_t position = 0;         ///< the next micro-batch, when it was written
};

/// A run that ends, as far as it must be known for that.
struct DivergedRun {
    Trainer &trainer;
    const RunData &data;
    const TrainSettings &settings;
    const Request &request;
    Progress &progress;
    const fs::path &folder;
    const LastCheckpoint &last;
    uint64_t step;            ///< at which it ends
    bool evaluating = false;  ///< in the evaluation after that
    uint64_t next = 0;        ///< micro-batch
    std::string resume;       ///< the command line that goes on
};

/// Throws: why it ends, the first value that was not finite where it is found, and how to go on after the checkpoint of
/// step `from`. The steps since the last checkpoint are done again, so the trainer is of no other use afterwards.
[[noreturn]] void end_diverged(const DivergedRun &run, const std::string &why, std::optional<uint64_t> from);

/// The weights and the optimizer's state of a checkpoint.
void read_tensors(Trainer &trainer, const fs::path &checkpoint);

}  // namespace cryolite
