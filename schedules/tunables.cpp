#include "schedules/tunables.h"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "bundle/error.h"

namespace cryolite {

std::string Tunable::legal_words() const {
    if (legal.size() == 1) return std::to_string(legal[0]);
    return fmt::format("{} or {}", fmt::join(legal.begin(), legal.end() - 1, ", "), legal.back());
}

int Tunables::operator()(const std::string &name, int usual, std::vector<int> legal, Sums sums) {
    if (auto known = std::ranges::find(declared, name, &Tunable::name); known != declared.end()) return known->value;
    legal.push_back(usual);
    std::ranges::sort(legal);
    legal.erase(std::unique(legal.begin(), legal.end()), legal.end());
    Tunable t{name, usual, usual, std::move(legal), sums};
    if (auto at = given.find(name); at != given.end()) {
        t.value = at->second.value;
        if (!std::ranges::count(t.legal, t.value))
            fail("{}: {} is {}, expected {}", at->second.source, name, t.value, t.legal_words());
    }
    declared.push_back(t);
    return t.value;
}

std::vector<int> whole_numbers(int first, int last) {
    std::vector<int> list(size_t(std::max(0, last - first + 1)));
    std::iota(list.begin(), list.end(), first);
    return list;
}

std::vector<int> doublings(int last) {
    std::vector<int> list;
    for (int n = 1; n < last; n *= 2) list.push_back(n);
    list.push_back(last);
    return list;
}

}  // namespace cryolite
