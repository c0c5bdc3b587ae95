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

/// The loss over the whole validation split, in consecutive windows or rows; with the accuracy of a classifier, or the
/// root of the mean squared error and R^2 where numbers are predicted. Nothing if `stop` returns true meanwhile.
std::optional<EvalEvent> evaluate(Trainer &trainer, const RunData &data, const TrainSettings &settings, uint64_t step,
                                  const std::function<bool()> &stop);

}  // namespace cryolite
