#pragma once
// --init: weights in a file or in a folder (runtime/files/tensor_files.h), in the model's own names, in those that
// its program says other programs use, or in what --rename makes of them.

#include <optional>

#include "apps/cryolite/session/settings.h"
#include "runtime/train/trainer.h"

namespace cryolite {

/// Throws UsageError for a --rename that is not OLD=NEW, or that has no --init.
void check_renames(const TrainSettings &settings);

/// A parameter of the model that the file decides, such as the size of the vocabulary; nothing: there is no file, or it
/// does not decide it. Errors: it is no safetensors file.
std::optional<int> param_of_init(const TrainSettings &settings, const Request &request, const std::string &param);

/// Throws UsageError if the tensors of --init are those of another model, before anything is compiled.
void check_init(const TrainSettings &settings, const Request &request);

/// Loads the weights of --init, or draws them from the seed.
void begin_weights(Trainer &trainer, const TrainSettings &settings, const Request &request);

/// The tensors into which files of other programs, and so a run's, split a parameter; empty: they do not split it.
std::vector<TensorPart> file_parts(const std::string &parameter, const WeightFiles &weights,
                                   const TrainSettings &settings);

}  // namespace cryolite
