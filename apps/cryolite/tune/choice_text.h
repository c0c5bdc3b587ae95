#pragma once
// What a search found, as text.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/search_records.h"

namespace cryolite {

/// The first words of a file of lines that a search found.
inline constexpr std::string_view lines_heading = "// found by cryolite tune";

/// The lines of the step schedule, one by one.
std::vector<std::string> lines_of(const SearchChoice &c);
/// The lines as the text of a file for --schedule, one in each row, under a comment that says what they gain.
std::string file_of(const SearchChoice &c);

}  // namespace cryolite
