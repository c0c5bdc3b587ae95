#pragma once
// --init FOLDER: a model as Hugging Face's transformers saves it. What its config.json says are parameters of ours.

#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// Gives the parameters that the config.json of --init FOLDER decides, and its tokenizer.json where no --tokenizer is
/// chosen; nothing where --init is no folder, or is that of the run that goes on, whose own file has them. Throws
/// UsageError: a flag or a preset that was asked for contradicts it, and what `params_of_config` refuses.
void give_init(Request &request, bool preset_chosen);

/// The text of config.json in the folder of --init; empty: --init is none.
std::string config_of_init(const TrainSettings &settings);

}  // namespace cryolite
