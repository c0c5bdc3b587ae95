#pragma once

#include <functional>
#include <optional>

#include "apps/cryolite/report/events.h"
#include "apps/cryolite/inputs/run_data.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// Throws if the validation data end with a batch whose loss cannot be evaluated. It is called before a
/// run, so that the run does not fail in the midst.
void check_evaluation(const Trainer &trainer, const RunData &data, const TrainSettings &settings);

/// Whether an evaluation is given up, after `done` of `all` batches.
using StopEvaluating = std::function<bool(size_t done, size_t all)>;

/// The loss over the validation split, in consecutive windows or rows; with the accuracy of a classifier, or the root
/// of the mean squared error and R^2 where numbers are predicted. With --eval-batches it is that of so many batches,
/// the same ones each time, which are spread evenly over the split without its last batch. Nothing if `stop` returns
/// true meanwhile.
std::optional<EvalEvent> evaluate(Trainer &trainer, const RunData &data, const TrainSettings &settings, uint64_t step,
                                  const StopEvaluating &stop);

}  // namespace cryolite
