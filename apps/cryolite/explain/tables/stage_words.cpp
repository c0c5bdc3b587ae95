#include "apps/cryolite/explain/tables/stage_words.h"

#include <algorithm>

#include "bundle/block_names.h"

namespace cryolite {

std::string placed_words(const std::string &placed) {
    return placed == "rematerialised" ? placed : "compute_" + placed;
}

std::vector<std::string> stage_lines(const PlanCall &call, bool each) {
    std::vector<std::string> lines;
    for (const PlanCall::Stage &s : call.stages) {
        const std::string line = s.name + ": " + placed_words(s.placed), shown = each ? line : without_numbers(line);
        if (each || std::ranges::find(lines, shown) == lines.end()) lines.push_back(shown);
    }
    return lines;
}

}  // namespace cryolite
