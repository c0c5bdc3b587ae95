#include "apps/cryolite/inputs/init_folder.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/cryolite/session/usage.h"
#include "apps/cryolite/inputs/config_template.h"
#include "runtime/io/error.h"
#include "runtime/io/json_depth.h"
#include "runtime/tokenizer/tokenizer.h"

namespace cryolite {

namespace {

bool is_folder(const fs::path &path) {
    std::error_code ignored;
    return !path.empty() && fs::is_directory(path, ignored);
}

bool same_value(const std::string &a, const std::string &b) {
    char *end_a = nullptr, *end_b = nullptr;
    const float x = std::strtof(a.c_str(), &end_a), y = std::strtof(b.c_str(), &end_b);
    return a == b || (!a.empty() && !b.empty() && !*end_a && !*end_b && x == y);
}

void give_params(Request &r, const fs::path &config, bool preset_chosen) {
    if (!is_there(config))
        fail_usage("--init: {} does not exist, but the model's sizes are read from it: name the file of the weights "
                   "instead of the folder, and give the sizes as flags",
                   config.string());
    const std::string content = read_file(config);
    check_json_depth(content, config.string());
    nlohmann::json file;
    try {
        file = nlohmann::json::parse(content);
    } catch (const nlohmann::json::exception &e) {
        fail("{} is no JSON: copy or download it again ({})", config.string(), e.what());
    }
    for (const auto &[name, text] : params_of_config(r.program.description, file, config.string())) {
        const auto at = r.values.all().find(name);
        const bool asked = at != r.values.all().end() && (at->second.origin != Origin::preset || preset_chosen);
        if (asked && !same_value(at->second.text, text)) {
            const Given &given = at->second;
            fail_usage("--{} is {}{}, but the model of --init has {} ({}): leave {} out", name, shown(given.text),
                       given.where.empty() ? "" : fmt::format(" ({})", given.where), text, config.string(),
                       given.origin == Origin::preset ? "--preset" : "it");
        }
        r.values.give(name, {text, Origin::init, config.string()});
    }
}

/// Takes the tokens of the weights: those in their folder, or of the run whose checkpoint they are.
void give_tokens(Request &r, fs::path folder) {
    if (!folder.has_filename()) folder = folder.parent_path();  // "runs/x/checkpoints/step-2/"
    if (!is_there(folder / "vocab.json") && folder.parent_path().filename() == "checkpoints")
        folder = folder.parent_path().parent_path();
    const fs::path tokenizer = folder / "tokenizer.json", vocabulary = folder / "vocab.json";
    if (is_there(tokenizer)) return r.values.give("tokenizer", {tokenizer.string(), Origin::init});
    if (!is_there(vocabulary)) return;
    // The weights of a run go with the numbers of its tokens. GPT-2's own vocab.json is of another kind.
    const std::string content = read_file(vocabulary);
    check_json_depth(content, vocabulary.string());
    if (!nlohmann::json::accept(content))
        fail("{} is no JSON: copy it again, or name the tokens of the weights with --tokenizer", vocabulary.string());
    const std::string type = vocabulary_type(content);
    if (!type.empty()) r.values.give("tokenizer", {type == "gpt2" ? type : vocabulary.string(), Origin::init});
}

}  // namespace

void give_init(Request &r, bool preset_chosen) {
    const auto at = r.values.all().find("init");
    if (at == r.values.all().end() || at->second.origin == Origin::resumed) return;
    const fs::path from = at->second.text;
    if (is_folder(from) && !r.program.description.weights.config.written.empty())
        usage_errors("--init: ", [&] { give_params(r, from / "config.json", preset_chosen); });
    if (r.program.description.task == "tokens")
        usage_errors("--init: ", [&] {
            const fs::path whole = fs::absolute(from).lexically_normal();
            give_tokens(r, is_folder(from) ? whole : whole.parent_path());
        });
}

std::string config_of_init(const TrainSettings &s) {
    const fs::path config = s.init / "config.json";
    return is_folder(s.init) && is_there(config) ? read_file(config) : "";
}

}  // namespace cryolite
