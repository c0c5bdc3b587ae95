#pragma once
// What went wrong first: steps of a run again, with a look at what every call writes.

#include <functional>
#include <string>

#include "apps/cryolite/inputs/run_data.h"
#include "runtime/train/trainer.h"

namespace cryolite {

struct ReplayedSteps {
    uint64_t done = 0;      ///< steps that the trainer's weights and state are of
    uint64_t last = 0;      ///< the last step to be done again
    uint64_t position = 0;  ///< the first micro-batch
    bool evaluate = false;  ///< after them
};

/// "nan, at element 3 of the output of 'h.0.attn', which 'h.0.attn' of the forward pass writes, in step 48": the first
/// value that is not finite. Empty: there is none, or `stop` said so between two steps. The trainer is of no other use
/// afterwards.
std::string find_not_finite(Trainer &trainer, const RunData &data, const TrainSettings &settings,
                            const ReplayedSteps &steps, const std::function<bool(uint64_t step)> &stop);

}  // namespace cryolite
