#include "apps/cryolite/explain/tables/merged_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "bundle/block_names.h"

namespace cryolite {

namespace {

/// " (0, 2, 3)": the blocks of these rows.
std::string blocks_in_words(const std::vector<std::string> &names) {
    constexpr size_t most = 8;
    std::vector<std::string> numbers;
    for (const std::string &name : names)
        if (std::string n = block_numbers(name); std::ranges::count(numbers, n) == 0) numbers.push_back(std::move(n));
    const bool all = numbers.size() <= most;
    if (!all) numbers.resize(most);
    return fmt::format(" ({}{})", fmt::join(numbers, ", "), all ? "" : ", ...");
}

}  // namespace

std::vector<MergedRow> merged_rows(const std::vector<BlockRow> &rows) {
    std::vector<MergedRow> merged;
    std::vector<std::vector<std::string>> names;
    std::map<std::string, int> kinds;  // how many merged rows share a name
    for (size_t i = 0; i < rows.size(); i++) {
        const std::string all = without_numbers(rows[i].name), columns = without_numbers(rows[i].columns);
        const auto at = std::ranges::find_if(merged, [&](const MergedRow &m) {
            return m.name == all && without_numbers(rows[m.first].columns) == columns;
        });
        if (at != merged.end()) {
            at->count++, names[size_t(at - merged.begin())].push_back(rows[i].name);
            continue;
        }
        merged.push_back({i, all});
        names.push_back({rows[i].name});
        kinds[all]++;
    }
    for (size_t k = 0; k < merged.size(); k++) {
        const bool one = std::ranges::count(names[k], names[k][0]) == int(names[k].size());
        if (one)
            merged[k].name = names[k][0];
        else if (kinds[merged[k].name] > 1)
            merged[k].name += blocks_in_words(names[k]);
    }
    return merged;
}

}  // namespace cryolite
