#pragma once
// Which names somebody may have meant.

#include <string>
#include <vector>

namespace cryolite {

/// The names nearest to a pattern, the nearest first, at most `most`: by the number of edits that make a name match it.
/// In a pattern, '*' matches any characters and '?' any one, without an edit.
std::vector<std::string> nearest_names(const std::string &pattern, const std::vector<std::string> &names,
                                       size_t most = 3);

/// The candidate nearest to a mistyped word, as " (did you mean X?)"; empty when none is near.
std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates);

}  // namespace cryolite
