#include "bundle/target.h"

#include <algorithm>

#include "bundle/flops.h"
#include "bundle/setting.h"

namespace cryolite {

namespace {

const std::string every_x86 = "x86-64";  // stands for all targets of x86_machine
const std::string x86_machine = "x86_64";

}  // namespace

const std::vector<TargetLine> &target_table() {
    static const std::vector<TargetLine> table = {
        {"host", "host", "", {}},
        {"vectors", "host", "", {}},
        {"baseline", "x86-64-linux", x86_machine, {}},
        {"avx2", "x86-64-linux-sse41-avx-f16c-fma-avx2", x86_machine, {"avx", "f16c", "fma", "avx2"}},
        {"avx512",
         "x86-64-linux-sse41-avx-f16c-fma-avx2-avx512-avx512_skylake",
         x86_machine,
         {"avx", "f16c", "fma", "avx2", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}},
        {"arm-64-linux", "arm-64-linux", "aarch64", {}},
        {"sm_80", "host", "", {}, "cuda"},
        {"sm_86", "host", "", {}, "cuda"},
        {"sm_90", "host", "", {}, "cuda"},
    };
    return table;
}

std::optional<std::vector<const TargetLine *>> targets_of(const std::string &text) {
    std::vector<std::string> names;
    for (const std::string &name : list_items(text, ',')) {
        if (name != every_x86) {
            names.push_back(name == "auto" ? "host" : name);
            continue;
        }
        for (const TargetLine &t : target_table())
            if (t.machine == x86_machine) names.push_back(t.name);
    }
    std::vector<const TargetLine *> found;
    for (const TargetLine &t : target_table())
        if (std::ranges::count(names, t.name) == 1) found.push_back(&t);
    if (found.size() != names.size()) return std::nullopt;
    return found;
}

bool multiplies_tiles(const std::string &target) {
    return (target == "host" || target == "auto") && has_matrix_tiles();
}

std::string expected_targets() {
    std::string words, three;
    for (const TargetLine &t : target_table()) {
        words += t.name + ", ";
        if (t.machine == x86_machine) three += (three.empty() ? "" : ",") + t.name;
    }
    return words + every_x86 + " (" + three + "), or several of one machine with commas between";
}

}  // namespace cryolite
