#pragma once
// Files that the command writes from templates of its own, which lie beside its data.

#include <string>
#include <utility>
#include <vector>

namespace cryolite {

/// Each mark as it stands in templates, "@NAME@", and its text.
using Marks = std::vector<std::pair<std::string, std::string>>;

/// The text of apps/cryolite/FOLDER/FILE.in with its marks filled in. Errors: it is not there.
std::string filled_template(const std::string &folder, const std::string &file, const Marks &marks);

}  // namespace cryolite
