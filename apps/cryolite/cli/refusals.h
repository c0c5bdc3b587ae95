#pragma once
// Reading a command line, and what is said of one that cannot be read.

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace cryolite {

/// Reads the words after `command` ("cache"; "": the command itself) into `app`. Throws CLI::Success after printing
/// --help or --version, and UsageError, which names the flag without its value or the word too many and says where help
/// is, or which subcommands there are. `refuse_extras`: throws in its place for words too many, with a better message.
void read_line(CLI::App &app, std::vector<std::string> words, const std::string &command,
               const std::function<void()> &refuse_extras = {});

}  // namespace cryolite
