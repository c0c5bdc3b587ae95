// The resolved settings of a run as config.toml.

#include <algorithm>
#include <cmath>

#include "apps/cryolite/cli/config_file.h"
#include "apps/cryolite/session/settings.h"
#include "client/programs.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// A float as TOML reads it back: with a point or an exponent.
std::string real(double x) {
    std::string text = fmt::format("{}", x);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string toml_list(const std::vector<std::string> &texts) {
    std::vector<std::string> items;
    for (const std::string &text : texts) items.push_back(toml_string(text));
    return fmt::format("[{}]", fmt::join(items, ", "));
}

/// The value in TOML; empty: there is nothing to say.
std::string literal(const Setting &setting, ValueRef value) {
    const std::string text = text_of(setting, value);
    if (std::ranges::any_of(setting.words, [&](const Setting::Word &w) { return w.text == text; }))
        return toml_string(text);
    if (setting.list) return toml_list(list_items(text, setting.list));
    if (auto *path = std::get_if<fs::path *>(&value)) return (*path)->empty() ? "" : toml_string(text);
    if (auto *x = std::get_if<double *>(&value); x && !std::holds_alternative<Setting::Seconds>(setting.range))
        return std::isnan(**x) ? "" : real(**x);
    const bool number = std::holds_alternative<WholeRange>(setting.range) ||
                        std::holds_alternative<RealRange>(setting.range) ||
                        std::holds_alternative<PowerOfTwo>(setting.range);
    if (number || setting.is_switch()) return text;
    return text.find('\n') == std::string::npos ? toml_string(text) : toml_lines(text);
}

}  // namespace

void check_names(const TrainSettings &s) {
    auto check = [](const std::string &whose, const fs::path &name) {
        const std::string text = name.empty() ? "" : fs::absolute(name).string();
        if (first_not_utf8(text) != std::string::npos)
            fail_usage("{}: the name {} is not UTF-8, so config.toml, which --resume reads, cannot hold it: rename the "
                       "file or its folder",
                       whose, shown(text, 400));
    };
    check("APP", is_path(s.app) ? s.app : "");
    for_each_setting(s, [&](const Flag &flag, ValueRef value) {
        if (auto *path = std::get_if<fs::path *>(&value)) check("--" + flag.name, **path);
        if (auto *text = std::get_if<std::string *>(&value); text && std::holds_alternative<Setting::File>(flag.range))
            check("--" + flag.name, **text);
    });
}

std::string config_toml(const TrainSettings &s) {
    std::vector<std::string> groups;  // in the order of their first setting
    std::map<std::string, std::string> lines;
    for_each_setting(s, [&](const Flag &flag, ValueRef value) {
        if (!lines.contains(flag.group)) groups.push_back(flag.group);
        std::string &of_group = lines[flag.group];
        if (const std::string text = literal(flag, value); !text.empty())
            of_group += fmt::format("{} = {}\n", flag.name, text);
    });
    std::string out = fmt::format("{}\napp = {}\n", config_heading,
                                  toml_string(is_path(s.app) ? fs::absolute(s.app).string() : s.app));
    if (!s.preset.empty()) out += fmt::format("preset = {}\n", toml_string(s.preset));
    for (const std::string &group : groups) out += fmt::format("\n# {}\n{}", group, lines[group]);
    return out;
}

}  // namespace cryolite
