#pragma once
// Configuration files: flat TOML, each key a flag without its dashes.

#include <map>
#include <string>

#include "apps/cryolite/cli/values.h"
#include "runtime/io/files.h"

namespace cryolite {

/// Key -> value as text, and where it stands ("my.toml, line 3"). `between`: the character that the text of a list has
/// between its items, by key; null: a comma. Throws UsageError: unreadable, not TOML (the line), a value that is a
/// table, or a list that has other items than texts.
std::map<std::string, Given> read_config(const fs::path &path, Origin origin,
                                         char (*between)(const std::string &key) = nullptr);

/// The text as a TOML string.
std::string toml_string(const std::string &text);
/// As a TOML string over several lines.
std::string toml_lines(const std::string &text);

}  // namespace cryolite
