#include "apps/cryolite/explain/tables/stage_words.h"

#include <algorithm>

#include "bundle/block_names.h"

namespace cryolite {

std::string placed_words(const PlanCall::Stage &stage) {
    if (stage.placed == "rematerialised") return stage.placed;
    return stage.placed == "root" ? "compute_root" : "compute_" + stage.placed;
}

std::vector<std::string> stage_lines(const PlanCall &call, bool each) {
    std::vector<std::string> lines;
    for (const PlanCall::Stage &s : call.stages) {
        const std::string line = s.name + ": " + placed_words(s), shown = each ? line : without_numbers(line);
        if (each || std::ranges::find(lines, shown) == lines.end()) lines.push_back(shown);
    }
    return lines;
}

}  // namespace cryolite
