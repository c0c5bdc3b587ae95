#include "apps/cryolite/cli/refusals.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bundle/near_names.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

std::vector<std::string> subcommands_of(const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
        names.push_back(sub->get_name());
    return names;
}

std::string see_help(const std::string &command) {
    return fmt::format("see cryolite {}--help", command.empty() ? "" : command + " ");
}

[[noreturn]] void refuse_line(const CLI::ParseError &error, const std::string &command) {
    const std::string text = error.what(), help = see_help(command);
    // CLI11 says "--layers: 1 required N missing".
    if (dynamic_cast<const CLI::ArgumentMismatch *>(&error) && text.ends_with(" missing"))
        fail_usage("{} is the last word: its value, {}, is missing; {}", text.substr(0, text.find(':')),
                   text.substr(0, text.size() - 8).substr(text.find("required ") + 9), help);
    if (text == "RUN is required")
        fail_usage("RUN is required, the folder of a run: cryolite runs ls lists those in runs; {}", help);
    fail_usage("{}; {}", text, help);
}

/// Throws where a command is left out that has subcommands.
void require_subcommand(const CLI::App &app, const std::string &command) {
    const std::vector<std::string> names = subcommands_of(app);
    if (!names.empty()) fail_usage("a command is required, one of {}; {}", fmt::join(names, ", "), see_help(command));
}

/// Throws where `word` is none of the subcommands of `app`, if it has any.
void check_subcommand(const std::string &word, const CLI::App &app, const std::string &command) {
    const std::vector<std::string> names = subcommands_of(app);
    if (!names.empty() && std::find(names.begin(), names.end(), word) == names.end())
        fail_usage("there is no command {}{}{}: expected {}", command.empty() ? "" : "of " + command + " ", shown(word),
                   did_you_mean(word, names), fmt::join(names, ", "));
}

}  // namespace

void read_line(CLI::App &app, std::vector<std::string> words, const std::string &command,
               const std::function<void()> &refuse_extras) {
    if (words.empty())
        require_subcommand(app, command);
    else if (!words[0].starts_with("-"))
        check_subcommand(words[0], app, command);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    try {
        app.parse(std::move(words));
    } catch (const CLI::Success &e) {
        app.exit(e);
        throw;
    } catch (const CLI::ParseError &e) {
        if (refuse_extras && dynamic_cast<const CLI::ExtrasError *>(&e)) refuse_extras();
        refuse_line(e, command);
    }
}

}  // namespace cryolite
