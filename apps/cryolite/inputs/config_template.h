#pragma once
// config.json beside weights, as a generator program says that other programs have it (WeightFiles::Config).

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bundle/program_description.h"

namespace cryolite {

/// Parameters of a model, as text.
using ModelParams = std::map<std::string, std::string>;

/// What a run writes of a model of these parameters. `end_of_text`: the tokenizer's last token, or null. Of `begun`,
/// the file of --init or null, it has the keys that are kept. Errors: a "$name" that is no parameter.
nlohmann::json filled_config(const WeightFiles::Config &config, const ModelParams &params,
                             const nlohmann::json &end_of_text, const nlohmann::json &begun);

/// The parameters that a file decides. `origin` names it in errors: a key that is not known and may change numbers, one
/// that has to have another value or is missing, two that contradict each other.
ModelParams params_of_config(const ProgramDescription &program, const nlohmann::json &file, const std::string &origin);

}  // namespace cryolite
