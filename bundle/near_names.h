#pragma once
// Which names somebody may have meant.

#include <string>
#include <vector>

namespace cryolite {

/// Of these names the nearest to a pattern, `most` at most, the nearest first: by the edits that make one match it.
/// What stands for a '*' costs nothing, nor does a '?' for one character.
std::vector<std::string> nearest_names(const std::string &pattern, const std::vector<std::string> &names,
                                       size_t most = 3);

/// The candidate nearest to a mistyped word, as " (did you mean X?)"; empty when none is near.
std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates);

}  // namespace cryolite
