#pragma once
// Suggests flags in place of one that does not exist.

#include <string>
#include <vector>

namespace cryolite {

struct NamedFlag {
    std::string name;  ///< without its dashes
    std::string help;
};

/// " (did you mean --lr?)" of "--learning-rate=1e-3": by spelling where one is near, else flags that the word
/// abbreviates or spells out, else flags that share a part of their names with it, else flags whose help has all of its
/// parts; three at most, and empty where there are none.
std::string flags_meant(const std::string &word, const std::vector<NamedFlag> &flags);

}  // namespace cryolite
