#pragma once
// --init: a file of weights, in the model's own names or in those that its program says other programs use.

#include <optional>

#include "apps/cryolite/session/settings.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// A parameter of the model that the file decides, as the size of a vocabulary; nothing: there is no file, or it does
/// not say. Errors: it is no safetensors file.
std::optional<int> param_of_init(const TrainSettings &settings, const Request &request, const std::string &param);

/// What the header of --init shows to be of another model, before anything is compiled.
void check_init(const TrainSettings &settings, const Request &request);

/// Weights of --init, or drawn from the seed.
void begin_weights(Trainer &trainer, const TrainSettings &settings, const Request &request);

}  // namespace cryolite
