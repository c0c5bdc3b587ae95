#pragma once
// Files that the command writes from templates, which are installed with it.

#include <string>
#include <utility>
#include <vector>

namespace cryolite {

/// Each mark of a template, such as "@NAME@", with the text that replaces it.
using Marks = std::vector<std::pair<std::string, std::string>>;

/// The text of apps/cryolite/FOLDER/FILE.in with its marks replaced. Errors: there is no such file.
std::string filled_template(const std::string &folder, const std::string &file, const Marks &marks);

}  // namespace cryolite
