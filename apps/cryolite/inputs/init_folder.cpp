#include "apps/cryolite/inputs/init_folder.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/cryolite/session/usage.h"
#include "apps/cryolite/inputs/config_template.h"
#include "apps/cryolite/run/find_run.h"
#include "runtime/collective/processes.h"
#include "runtime/files/checkpoint.h"
#include "runtime/io/error.h"
#include "runtime/io/json_depth.h"
#include "runtime/system/streams.h"
#include "runtime/tokenizer/tokenizer_file.h"

namespace cryolite {

using nlohmann::json;

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

/// `way_out`: what else helps than another copy of the file.
json read_json(const fs::path &path, const std::string &way_out = "") {
    const std::string content = read_file(path);
    check_json_depth(content, path.string());
    try {
        return json::parse(content);
    } catch (const json::exception &e) {
        fail("{} is no JSON: copy or download it again{} ({})", path.string(), way_out, e.what());
    }
}

/// The file that the sizes of the model are read from.
json read_sizes(const fs::path &config) {
    if (!is_there(config))
        fail("{} does not exist, but the model's sizes are read from it: name the file of the weights instead of "
             "the folder, and give the sizes as flags",
             config.string());
    return read_json(config);
}

/// The program whose run wrote this config.json (`model_config`); empty: it is in the form of a known model, or
/// somebody else's.
std::string program_of(const json &file, const fs::path &config) {
    if (!file.is_object() || file.value("model_type", json()) != "cryolite") return "";
    const json name = file.value("program", json());
    if (!name.is_string()) fail("{}: \"program\" is missing, or is no name: copy the file again", config.string());
    return name;
}

/// The parameters in the file of a run of this program; none: another program wrote it.
ModelParams run_params(const Request &r, const json &file, const fs::path &config) {
    ModelParams params;
    if (program_of(file, config) != r.program.description.name) return params;
    const json said = file.value("params", json());
    if (!said.is_object()) fail("{}: \"params\" is missing, or is no object: copy the file again", config.string());
    for (const ProgramDescription::Param &p : r.program.description.params) {
        if (p.name == "batch") continue;
        const json value = said.value(p.name, json());
        if (value.is_primitive() && !value.is_null())
            params[p.name] = value.is_string() ? value.get<std::string>() : value.dump();
        else if (!r.values.chosen(p.name) && known_processes().rank() == 0)
            tell("warning: {} does not say --{}: it is {} here", config.string(), p.name,
                 r.values.text(p.name, p.value));
    }
    return params;
}

/// What config.json says of the model's parameters, for a program that writes it in the form of a known model.
ModelParams known_params(const Request &r, const json &file, const fs::path &config) {
    const std::string &own = r.program.description.name, other = program_of(file, config);
    if (other == own) return run_params(r, file, config);  // a run from before the program had such a form
    if (!other.empty())
        fail_usage("--init: {} is of a run of {}, whose weights are not those of {}", config.string(), other, own);
    return params_of_config(r.program.description, file, config.string());
}

/// Whether a flag may differ from the value in a program's own run: a number with a fraction is no size, and whether
/// the weights have positions for the context, their shapes decide.
bool may_differ(const ProgramDescription &program, const std::string &name) {
    const auto p = std::ranges::find(program.params, name, &ProgramDescription::Param::name);
    return name == "context" || (p != program.params.end() && p->type == "float");
}

void give_params(Request &r, const fs::path &config, bool preset_chosen) {
    const bool own = r.program.description.weights.config.written.empty();
    const json file = read_sizes(config);
    for (const auto &[name, text] : own ? run_params(r, file, config) : known_params(r, file, config)) {
        const auto at = r.values.all().find(name);
        const bool preset = at != r.values.all().end() && at->second.origin == Origin::preset;
        const bool asked =
            at != r.values.all().end() && (preset ? preset_chosen : !own || !may_differ(r.program.description, name));
        if (asked && !same_value(at->second.text, text)) {
            const Given &given = at->second;
            fail_usage("--{} is {}{}, but the model of --init has {} ({}): leave {} out{}", name, shown(given.text),
                       given.where.empty() ? "" : fmt::format(" ({})", given.where), text, config.string(),
                       preset ? "--preset" : "it",
                       own ? ", or name the file of the weights, and give all sizes as flags" : "");
        }
        r.values.give(name, {text, Origin::init, config.string()});
    }
}

/// Throws where the folder has no weights, but runs or the checkpoints of one. `whole` is its absolute path.
void refuse_runs(const fs::path &folder, const fs::path &whole) {
    for (const char *name : {"model.safetensors", "model.safetensors.index.json", "config.json"})
        if (is_there(whole / name)) return;
    if (const fs::path run = first_run(folder); !run.empty())
        fail_usage("--init: {} has runs, not weights: name one of them, such as {}", folder.string(), run.string());
    if (whole.filename() != "checkpoints") return;
    if (const std::vector<Checkpoint> all = list_checkpoints(whole.parent_path()); !all.empty())
        fail_usage("--init: {} has all checkpoints of a run: name one of them, such as {}, or the run's folder",
                   folder.string(), (folder / all[0].path.filename()).string());
}

/// Takes the tokens of the weights: those in their folder, or of the run whose checkpoint they are.
void give_tokens(Request &r, fs::path folder) {
    if (!is_there(folder / "vocab.json") && folder.parent_path().filename() == "checkpoints")
        folder = folder.parent_path().parent_path();
    const fs::path tokenizer = folder / "tokenizer.json", vocabulary = folder / "vocab.json";
    if (is_there(tokenizer)) return r.values.give("tokenizer", {tokenizer.string(), Origin::init});
    if (!is_there(vocabulary)) return;
    // The weights of a run go with the numbers of its tokens. GPT-2's own vocab.json is of another kind.
    const json file = read_json(vocabulary, ", or name the tokens of the weights with --tokenizer");
    const std::string type = type_of_vocabulary(file);
    if (!type.empty()) r.values.give("tokenizer", {type == "gpt2" ? type : vocabulary.string(), Origin::init});
}

}  // namespace

std::string preset_of_init(const Request &r) {
    const ProgramDescription &program = r.program.description;
    const auto at = r.values.all().find("init");
    if (!program.weights.config.written.empty() || at == r.values.all().end() || at->second.origin == Origin::resumed ||
        !is_folder(at->second.text))
        return "";
    const fs::path config = fs::path(at->second.text) / "config.json";
    const json name = usage_errors("--init: ", [&] {
        const json file = is_there(config) ? read_json(config) : json();
        return program_of(file, config) == program.name ? file.value("preset", json()) : json();
    });
    const auto preset = std::ranges::find_if(program.presets, [&](auto &p) { return name == p.first; });
    return preset == program.presets.end() ? "" : preset->first;
}

void give_init(Request &r, bool preset_chosen) {
    const auto at = r.values.all().find("init");
    if (at == r.values.all().end() || at->second.origin == Origin::resumed) return;
    const fs::path from = at->second.text;
    if (from.empty()) r.values.refuse("init", "a file or a folder of weights");
    usage_errors("--init: ", [&] {
        fs::path whole = fs::absolute(from).lexically_normal();
        if (!whole.has_filename()) whole = whole.parent_path();  // "runs/x/checkpoints/step-2/"
        if (is_folder(from)) refuse_runs(from, whole), give_params(r, from / "config.json", preset_chosen);
        if (r.program.description.task == "tokens") give_tokens(r, is_folder(from) ? whole : whole.parent_path());
    });
}

std::string config_of_init(const TrainSettings &s) {
    const fs::path config = s.init / "config.json";
    return is_folder(s.init) && is_there(config) ? read_file(config) : "";
}

}  // namespace cryolite
