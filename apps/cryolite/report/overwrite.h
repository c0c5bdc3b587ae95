#pragma once
// Files that a flag names and a command writes whole, such as pages: whether something else would be lost.

#include <string>
#include <string_view>

#include "runtime/io/files.h"

namespace cryolite {

/// Throws UsageError where `file`, which `flag` names, is there and is not empty, and does not begin with `heading`, as
/// all that is written there does; `what` it would be: "page of Cryolite". Before the work whose result it is to hold.
void check_overwrite(const std::string &flag, const fs::path &file, std::string_view heading, const std::string &what);

}  // namespace cryolite
