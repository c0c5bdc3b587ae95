#include "apps/cryolite/cli/values.h"

#include <algorithm>
#include <numeric>

#include "runtime/io/error.h"
#include "runtime/plan/memory_left.h"

namespace cryolite {

void Values::give(const std::string &flag, Given value) {
    auto [at, fresh] = values_.emplace(flag, value);
    if (!fresh && at->second.origin <= value.origin) at->second = std::move(value);
}

bool Values::chosen(const std::string &flag) const {
    auto at = values_.find(flag);
    return at != values_.end() && at->second.origin != Origin::preset;
}

void Values::refuse(const std::string &flag, const std::string &expected) const {
    const Given &given = values_.at(flag);
    const std::string where = given.where.empty() ? "" : fmt::format(" ({})", given.where);
    fail_usage("--{} is {}{}, expected {}", flag, shown(given.text), where, expected);
}

std::string Values::text(const std::string &flag, const std::string &otherwise) const {
    const auto at = values_.find(flag);
    if (at == values_.end()) return otherwise;
    const std::string &text = at->second.text;
    if (text.empty() || text.find('\0') != std::string::npos) refuse(flag, "a value");
    return text;
}

void Values::read(const Setting &s, ValueRef into) const {
    const auto at = values_.find(s.name);
    if (at == values_.end() || read_value(s, at->second.text, into)) return;
    std::vector<std::string> words;
    for (const Setting::Word &w : s.words) words.push_back(w.text);
    refuse(s.name, expected(s) + did_you_mean(at->second.text, words));
}

std::string did_you_mean(const std::string &word, const std::vector<std::string> &candidates) {
    size_t nearest = 3;  // more edits than this are another word
    std::string found;
    for (const std::string &candidate : candidates) {
        std::vector<size_t> row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), size_t{0});
        for (size_t i = 0; i < word.size(); i++) {
            size_t diagonal = row[0]++;
            for (size_t j = 0; j < candidate.size(); j++) {
                const size_t change = diagonal + (word[i] != candidate[j]);
                diagonal = row[j + 1];
                row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
            }
        }
        if (row.back() < nearest) nearest = row.back(), found = candidate;
    }
    return found.empty() ? "" : fmt::format(" (did you mean {}?)", found);
}

}  // namespace cryolite
