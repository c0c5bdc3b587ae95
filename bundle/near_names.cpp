#include "bundle/near_names.h"

#include <algorithm>

namespace cryolite {

namespace {

size_t edits(const std::string &pattern, const std::string &name) {
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j < row.size(); j++) row[j] = j;
    for (const char c : pattern) {
        size_t diagonal = row[0];
        row[0] += c != '*';
        for (size_t j = 1; j < row.size(); j++) {
            const size_t above = row[j];
            row[j] = c == '*' ? std::min(above, row[j - 1])
                              : std::min({diagonal + (c != '?' && c != name[j - 1]), above + 1, row[j - 1] + 1});
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
    for (size_t i = 0; i < list.size() && i < most; i++) nearest.push_back(list[i].second);
    return nearest;
}

}  // namespace cryolite
