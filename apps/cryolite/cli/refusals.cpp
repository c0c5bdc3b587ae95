#include "apps/cryolite/cli/refusals.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cryolite/cli/flags.h"
#include "runtime/io/error.h"

namespace cryolite {

void refuse_line(const CLI::ParseError &error, const std::string &command) {
    const std::string text = error.what();
    const std::string help = fmt::format("see cryolite {}--help", command.empty() ? "" : command + " ");
    // CLI11 says "--layers: 1 required N missing".
    if (dynamic_cast<const CLI::ArgumentMismatch *>(&error) && text.ends_with(" missing"))
        fail_usage("{} is the last word and lacks its value, {}; {}", text.substr(0, text.find(':')),
                   text.substr(0, text.size() - 8).substr(text.find("required ") + 9), help);
    fail_usage("{}; {}", text, help);
}

void check_known(const std::string &what, const std::string &word, const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
        names.push_back(sub->get_name());
    if (std::find(names.begin(), names.end(), word) == names.end())
        fail_usage("there is no {} {}{}: expected {}", what, shown(word), did_you_mean(word, names),
                   fmt::join(names, ", "));
}

}  // namespace cryolite
