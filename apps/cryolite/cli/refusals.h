#pragma once
// What is said of a command line that cannot be read.

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace cryolite {

/// A flag without its value, a word too many: names it, and where help is ("cache" of cryolite cache --help; "": the
/// command's own).
[[noreturn]] void refuse_line(const CLI::ParseError &error, const std::string &command);

/// Throws where `word` is none of the subcommands of `app`; `what` they are: "command".
void check_known(const std::string &what, const std::string &word, const CLI::App &app);

}  // namespace cryolite
