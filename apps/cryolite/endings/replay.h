#pragma once
// Finds the first value that is not finite: does steps of a run again, and looks at what every call writes.

#include <functional>
#include <string>

#include "apps/cryolite/inputs/run_data.h"
#include "runtime/train/trainer.h"

namespace cryolite {

struct ReplayedSteps {
    uint64_t done = 0;      ///< how many steps the trainer's weights and state have behind them
    uint64_t last = 0;      ///< the last step to be done again
    uint64_t position = 0;  ///< the index of the first micro-batch to be read
    bool evaluate = false;  ///< whether to do the evaluation after the last step again, too
};

/// The first value that is not finite, as in "nan, at element 3 of the output of 'h.0.attn', which 'h.0.attn' of the
/// forward pass writes, in step 48". Empty: there is none, or `stop` returned true. The trainer must not be used
/// afterwards.
std::string find_not_finite(Trainer &trainer, const RunData &data, const TrainSettings &settings,
                            const ReplayedSteps &steps, const std::function<bool(uint64_t step)> &stop);

}  // namespace cryolite
