#pragma once
// Configuration files: flat TOML, each key a flag without its dashes.

#include <map>
#include <string>

#include "apps/cryolite/cli/values.h"
#include "runtime/io/files.h"

namespace cryolite {

/// Key -> value as text, and where it stands ("my.toml, line 3"). Throws UsageError: unreadable,
/// not TOML (the line), a value that is a table or a list of what is no text.
std::map<std::string, Given> read_config(const fs::path &path, Origin origin,
                                         char (*between)(const std::string &key) = nullptr);

/// The text as a TOML string.
std::string toml_string(const std::string &text);

}  // namespace cryolite
