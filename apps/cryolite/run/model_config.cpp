// config.json beside model.safetensors.

#include <nlohmann/json.hpp>

#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/inputs/config_template.h"

namespace cryolite {

using nlohmann::json;

std::string model_config(const TrainSettings &s, const Program &program, const std::string &begun) {
    const WeightFiles::Config &config = program.description.weights.config;
    json j = {{"model_type", "cryolite"}, {"program", program.description.name}, {"params", s.params}};
    if (!s.preset.empty()) j["preset"] = s.preset;
    // GPT-2's <|endoftext|> is its last token; other vocabularies have none.
    if (!config.written.empty())
        j = filled_config(config, s.params, s.tokenizer == "gpt2" ? json(50256) : json(nullptr),
                          json::parse(begun, nullptr, false));
    return j.dump(2) + "\n";
}

}  // namespace cryolite
