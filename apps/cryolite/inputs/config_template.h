#pragma once
// Reads and writes the config.json beside weights, in the form that the program describes (WeightFiles::Config).

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bundle/program_description.h"

namespace cryolite {

/// Parameters of a model, as text.
using ModelParams = std::map<std::string, std::string>;

/// The config.json of a model with these parameters. `end_of_text`: the tokenizer's last token, or null. `begun`: the
/// file of --init, or null; the keys of `config.kept` are copied from it. Errors: a "$name" that is no parameter.
nlohmann::json filled_config(const WeightFiles::Config &config, const ModelParams &params,
                             const nlohmann::json &end_of_text, const nlohmann::json &begun);

/// The parameters that a file decides. `origin` names it in messages. Errors: a key that is not known and may change
/// the model's numbers; a key with a value that the model cannot have; a key that is missing; two keys that contradict
/// each other.
ModelParams params_of_config(const ProgramDescription &program, const nlohmann::json &file, const std::string &origin);

}  // namespace cryolite
