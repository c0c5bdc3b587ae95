#pragma once
// What is told of a search while it goes on, as `tune` prints it: events for programs, a row of its table, a live line.

#include <nlohmann/json_fwd.hpp>

#include "apps/cryolite/tune/search.h"

namespace cryolite {

nlohmann::json event_of(const SearchNews &n, double seconds_left);

extern const std::string search_header;
/// Of a kernel or a line, below `search_header`.
std::string search_row(const SearchNews &n, double seconds_left);
/// What goes on now: the candidate, and what is known of its kernel so far.
std::string live_line(const SearchNews &n, double seconds_left);

/// So much of a name as a row has room for.
std::string without_tail(const std::string &name);

}  // namespace cryolite
