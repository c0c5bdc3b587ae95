#include "bundle/near_names.h"

#include <algorithm>

namespace cryolite {

namespace {

/// How many edits turn a pattern into `name`; in a word, stars and question marks stand for themselves.
size_t edits(const std::string &pattern, const std::string &name, bool is_word = false) {
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j < row.size(); j++) row[j] = j;
    for (const char c : pattern) {
        const bool any = !is_word && c == '*', any_one = !is_word && c == '?';
        size_t diagonal = row[0];
        row[0] += !any;
        for (size_t j = 1; j < row.size(); j++) {
            const size_t above = row[j];
            row[j] = any ? std::min(above, row[j - 1])
                         : std::min({diagonal + (!any_one && c != name[j - 1]), above + 1, row[j - 1] + 1});
            diagonal = above;
        }
    }
    return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(const std::string &pattern, const std::vector<std::string> &names, size_t most) {
    std::vector<std::pair<size_t, std::string>> list;
    for (const std::string &name : names) list.push_back({edits(pattern, name), name});
    std::ranges::stable_sort(list, {}, &std::pair<size_t, std::string>::first);
    std::vector<std::string> nearest;
    for (const auto &[distance, name] : list)
        if (nearest.size() < most && std::ranges::find(nearest, name) == nearest.end()) nearest.push_back(name);
    return nearest;
}

std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates) {
    // Three edits, or one for each letter, make another word: such a candidate is not near.
    size_t least = std::min<size_t>(3, word.size() - size_t(std::ranges::count(word, '-')));
    std::string found;
    for (const std::string &candidate : candidates)
        if (const size_t n = edits(word, candidate, true); n < least) least = n, found = candidate;
    return found.empty() ? "" : " (did you mean " + found + "?)";
}

}  // namespace cryolite
