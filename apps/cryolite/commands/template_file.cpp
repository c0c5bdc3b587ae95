#include "apps/cryolite/commands/template_file.h"

#include "apps/cryolite/inputs/run_data.h"

namespace cryolite {

std::string filled_template(const std::string &folder, const std::string &file, const Marks &marks) {
    std::string text = read_file(source_path("apps/cryolite/" + folder + "/" + file + ".in"));
    for (const auto &[mark, value] : marks)
        for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
            text.replace(at, mark.size(), value);
    return text;
}

}  // namespace cryolite
