#pragma once
// How `tune` prints SearchNews: as events for programs, as rows of a table, and as a live line.

#include <nlohmann/json_fwd.hpp>

#include "apps/cryolite/tune/search.h"

namespace cryolite {

nlohmann::json event_of(const SearchNews &n, double seconds_left);

extern const std::string search_header;
/// The row of a kernel or a line in the table below `search_header`.
std::string search_row(const SearchNews &n, double seconds_left);
/// The last candidate, and what is known of its kernel so far.
std::string live_line(const SearchNews &n, double seconds_left);

/// As much of a name as a row has room for.
std::string without_tail(const std::string &name);

}  // namespace cryolite
