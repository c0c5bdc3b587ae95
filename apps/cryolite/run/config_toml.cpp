// The resolved settings of a run as config.toml.

#include <cmath>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/session/settings.h"
#include "client/programs.h"
#include "runtime/data/utf8.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// A float as TOML reads it back: with a point or an exponent.
std::string real(double x) {
    std::string text = fmt::format("{}", x);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string path(const fs::path &p) { return toml_string(fs::absolute(p).string()); }

}  // namespace

/// What a text has between its commas; "none" as it is.
std::string toml_list(const std::string &text) {
    if (text == "none") return toml_string(text);
    std::string items;
    for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        items += (items.empty() ? "" : ", ") + toml_string(text.substr(begin, end - begin));
    }
    return "[" + items + "]";
}

void check_names(const TrainSettings &s) {
    auto check = [](const char *whose, const fs::path &name) {
        const std::string text = name.empty() ? "" : fs::absolute(name).string();
        if (first_not_utf8(text) != std::string::npos)
            fail_usage("{}: the name {} is not UTF-8, which config.toml has to be: the run could not go on by it; rename the "
                       "file or its folder",
                       whose, shown(text, 400));
    };
    check("APP", is_source(s.app) ? s.app : "");
    check("--data", s.data), check("--val", s.validation), check("--init", s.init);
}

std::string config_toml(const TrainSettings &s) {
    std::string out = std::string(config_heading) + "\n";
    auto line = [&](const std::string &key, const std::string &value) {
        out += fmt::format("{} = {}\n", key, value);
    };
    line("app", toml_string(is_source(s.app) ? fs::absolute(s.app).string() : s.app));
    if (!s.preset.empty()) line("preset", toml_string(s.preset));
    out += "\n# Model\n";
    for (auto &[name, value] : s.params) line(name, value);
    if (s.text) line("tokenizer", toml_string(s.tokenizer));
    out += "\n# Step\n";
    line("accumulate", std::to_string(s.accumulate));
    line("precision", toml_string(s.precision));
    line("freeze", toml_list(s.freeze));
    line("clip", real(s.clip));
    line("optimizer", toml_string(s.optimizer));
    if (!std::isnan(s.rate.high)) line("lr", real(s.rate.high));
    if (!std::isnan(s.rate.low)) line("min-lr", real(s.rate.low));
    line("warmup", std::to_string(s.rate.warmup));
    for (auto &[name, value] : s.numbers) line(name, real(value));
    out += "\n# Schedule\n";
    line("update", toml_string(s.update));
    line("group", toml_string(s.group));
    line("head-rows", s.head_rows < 0 ? toml_string("auto") : std::to_string(s.head_rows));
    line("recompute", toml_string(s.recompute));
    line("dialect", toml_string(s.dialect));
    line("device", toml_string(s.device));
    line("workers", std::to_string(s.workers));
    if (s.threads) line("threads", std::to_string(s.threads));
    line("patience", toml_string(fmt::format("{}s", s.patience)));
    out += "\n# Run\n";
    line("steps", std::to_string(s.rate.steps));
    line("seed", std::to_string(s.seed));
    if (!s.data.empty()) line("data", path(s.data));
    if (!s.validation.empty()) line("val", path(s.validation));
    if (!s.init.empty()) line("init", path(s.init));
    line("order", toml_string(s.sequential ? "sequential" : "random"));
    line("checkpoint-every", std::to_string(s.checkpoint_every));
    line("keep", std::to_string(s.keep));
    line("give-up-after", std::to_string(s.give_up_after));
    line("eval-every", std::to_string(s.eval_every));
    return out;
}

}  // namespace cryolite
