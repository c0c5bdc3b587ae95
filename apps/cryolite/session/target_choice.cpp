#include "apps/cryolite/session/target_choice.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>

#include "runtime/io/error.h"

namespace cryolite {

std::string this_machine() {
    struct utsname name {};
    uname(&name);
    return name.machine;
}

const std::vector<std::string> &processor_features() {
    // The second name is the system's, if that is another one.
    static constexpr std::pair<const char *, const char *> known[] = {{"avx", ""},
                                                                      {"f16c", ""},
                                                                      {"fma", ""},
                                                                      {"avx2", ""},
                                                                      {"avx512f", ""},
                                                                      {"avx512bw", ""},
                                                                      {"avx512dq", ""},
                                                                      {"avx512vl", ""},
                                                                      {"avx512cd", ""},
                                                                      {"avx512bf16", "avx512_bf16"},
                                                                      {"avx512vnni", "avx512_vnni"}};
    static const std::vector<std::string> found = [] {
        std::vector<std::string> names;
        std::ifstream in("/proc/cpuinfo");
        std::string line;
        while (std::getline(in, line) && !line.starts_with("flags")) {
        }
        for (const auto &[name, other] : known)
            if ((line + " ").find(fmt::format(" {} ", *other ? other : name)) != std::string::npos)
                names.push_back(name);
        return names;
    }();
    return found;
}

std::string what_lacks_here(const TargetLine &t) {
    if (!t.machine.empty() && t.machine != this_machine())
        return fmt::format("it is for {}, and this machine is {}", t.machine, this_machine());
    std::string missing;
    for (const std::string &f : t.features)
        if (std::ranges::count(processor_features(), f) == 0) missing += " " + f;
    return missing.empty() ? "" : "this processor lacks" + missing;
}

void check_target(const TrainSettings &s, Command command) {
    const std::vector<const TargetLine *> targets = targets_of(s.target).value();
    if (targets.size() > 1 && command != Command::exports)
        fail_usage("--target {}: only export takes several, into one library; name one", s.target);
    for (const TargetLine *t : targets)
        if (targets.size() > 1 && (t->machine.empty() || t->machine != targets[0]->machine))
            fail_usage("--target {}: {} and {} are for different machines, but the targets of a library are for one",
                       s.target, targets[0]->name, t->name);
    if (command == Command::exports || command == Command::compile) return;
    if (const std::string why = what_lacks_here(*targets[0]); !why.empty())
        fail_usage("--target {}: {}; only compile and export can use it here", s.target, why);
}

}  // namespace cryolite
