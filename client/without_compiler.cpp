#include "client/without_compiler.h"

#include <fmt/ranges.h>

#include <set>

#include "client/nearest_bundle.h"
#include "client/user_program.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

bool has_compiler() { return fs::exists(build_folder() / "user_program.json"); }

std::string compiled_program_id(const std::string &app, const std::string &machine, const Cache &cache) {
    std::string newest;
    std::set<std::string> others;
    for (const CacheEntry &entry : cache.list("bundles")) {
        const json about = json::parse(entry.about, nullptr, false);
        if (!entry.damage.empty() || !about.is_object() || !about.contains("parts")) continue;
        if (about.value("app", "") != app) {
            others.insert(about.value("app", ""));
            continue;
        }
        const std::string id = about["parts"].value("program", "");
        if (about["parts"].value("machine", "") == machine) return id;
        if (newest.empty()) newest = id;
    }
    if (newest.empty())
        fail("{} has no compiled bundle of {}{}, and this build has no compiler: run `cryolite explain {}` with the "
             "flags of "
             "the training and --cache DIR in a build that has one (./cryolite), and copy DIR here",
             cache.folder().string(), app,
             others.empty() ? "" : fmt::format(" (it has some of {})", fmt::join(others, ", ")), app);
    return newest;
}

void fail_not_compiled(const std::string &app, const json &parts, const Cache &cache) {
    std::string nearest;
    if (std::optional<NearestBundle> near = nearest_bundle(cache, parts.dump()))
        nearest =
            fmt::format("\nThe nearest is {} of {}, compiled {} ago; what differs: {}", near->entry.key.substr(0, 12),
                        bundle_about(near->entry).app, age_of(near->entry), fmt::join(near->differs, "; "));
    fail("{} has no bundle of {} that was compiled with these flags for this processor, and this build has no "
         "compiler.{}\n"
         "Run `cryolite explain {}` with the same flags and --cache DIR in a build that has one (./cryolite), on a "
         "machine "
         "with this processor, and copy DIR here",
         cache.folder().string(), app, nearest, app);
}

}  // namespace cryolite
