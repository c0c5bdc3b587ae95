#include "apps/cryolite/tune/choice_text.h"

#include <fmt/format.h>

#include "apps/cryolite/tune/kept_choice.h"
#include "bundle/setting.h"

namespace cryolite {

std::vector<std::string> lines_of(const SearchChoice &c) {
    std::vector<std::string> lines;
    for (const std::string &line : list_items(c.lines, ';'))
        if (const size_t at = line.find_first_not_of(' '); at != std::string::npos) lines.push_back(line.substr(at));
    return lines;
}

std::string file_of(const SearchChoice &c) {
    const bool from_scratch = c.lines.starts_with(scratch_lines);
    std::string text = fmt::format("{} {}{}: a step takes {:.3f} ms instead of {:.3f}{}\n", lines_heading, c.app,
                                   c.same_bits    ? " --same-bits"
                                   : from_scratch ? " --from-scratch"
                                                  : "",
                                   1e3 * c.after, 1e3 * c.before,
                                   c.lines.empty()            ? "; nothing better than the shipped schedule"
                                   : c.lines == scratch_lines ? "; nothing better than automatic loops"
                                                              : "");
    for (const std::string &line : lines_of(c)) text += line + ";\n";
    return text;
}

}  // namespace cryolite
