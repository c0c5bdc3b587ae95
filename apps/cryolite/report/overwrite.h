#pragma once
// Checks that a file which a command is to write, such as a page, has a folder and would not replace something else.

#include <string>
#include <string_view>

#include "runtime/io/files.h"

namespace cryolite {

/// Throws UsageError if the folder of `file`, which `flag` names, does not exist, or if `file` is there, is not empty,
/// and does not begin with `heading`, as all files of its kind do. `what`: the kind, such as "page of Cryolite". It is
/// called before the work whose result the file will hold.
void check_overwrite(const std::string &flag, const fs::path &file, std::string_view heading, const std::string &what);

}  // namespace cryolite
