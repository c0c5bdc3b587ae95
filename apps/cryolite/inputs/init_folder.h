#pragma once
// --init FOLDER: a model as Hugging Face's transformers saves it, or a run. Its config.json decides parameters of our
// model.

#include "apps/cryolite/session/settings.h"

namespace cryolite {

/// The preset of the run that --init names, if it is one of this program, for which no form of config.json is known.
std::string preset_of_init(const Request &request);

/// Gives the parameters that the config.json of --init FOLDER decides, and its tokenizer.json where no --tokenizer is
/// chosen. Does nothing if --init is no folder, or is that of a resumed run, whose own file has the parameters. Throws
/// UsageError: a flag or a preset that was asked for contradicts it, `params_of_config` refuses it, or the folder has
/// runs, or the checkpoints of one, instead of weights.
void give_init(Request &request, bool preset_chosen);

/// The text of config.json in the folder of --init; empty: there is none.
std::string config_of_init(const TrainSettings &settings);

}  // namespace cryolite
