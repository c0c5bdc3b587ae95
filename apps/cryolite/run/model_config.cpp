// config.json beside model.safetensors.

#include <nlohmann/json.hpp>

#include "apps/cryolite/run/run_folder.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// What "$name" stands for.
json value_of(const TrainSettings &s, const std::string &name) {
    // GPT-2's <|endoftext|> is its last token; other vocabularies have none.
    if (name == "end_of_text") return s.tokenizer == "gpt2" ? json(50256) : json(nullptr);
    const auto at = s.params.find(name);
    if (at == s.params.end()) fail("the config of {} has ${}, which is no parameter of its model", s.app, name);
    return json::parse(at->second);
}

void fill(json &j, const TrainSettings &s) {
    if (j.is_string() && j.get_ref<const std::string &>().starts_with("$"))
        j = value_of(s, j.get<std::string>().substr(1));
    else if (j.is_structured())
        for (json &part : j) fill(part, s);
}

}  // namespace

std::string model_config(const TrainSettings &s, const Program &program) {
    const std::string &config = program.description.weights.config;
    json j = {{"model_type", "cryolite"}, {"program", program.description.name}, {"params", s.params}};
    if (!config.empty()) {
        j = json::parse(config, nullptr, false);
        if (!j.is_object()) fail("the config of {} is no object of JSON", s.app);
        fill(j, s);
    }
    return j.dump(2) + "\n";
}

}  // namespace cryolite
