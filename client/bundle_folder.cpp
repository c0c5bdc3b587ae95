#include "client/bundle_folder.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

std::vector<fs::path> folders_of_bundles() {
    std::vector<fs::path> folders;
    if (const char *text = std::getenv("CRYOLITE_BUNDLES")) {
        const std::string all = text;
        for (size_t begin = 0; begin <= all.size();) {
            const size_t end = std::min(all.find(':', begin), all.size());
            if (end > begin) folders.push_back(all.substr(begin, end - begin));
            begin = end + 1;
        }
    }
    std::error_code error;
    const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (error) fail("cannot find where this program is: {}", error.message());
    folders.push_back(here);
    folders.push_back(here.parent_path() / "lib" / "cryolite" / "bundles");
    return folders;
}

}  // namespace

fs::path bundle_folder(const std::string &name) {
    if (name.empty() || name.find('/') != std::string::npos)
        fail("{} is not the name of a bundle: expected that of a model, without a folder", shown(name));
    std::vector<std::string> looked;
    for (const fs::path &folder : folders_of_bundles()) {
        const fs::path bundle = folder / (name + ".bundle");
        looked.push_back(folder.string());
        std::error_code ignored;
        if (!fs::exists(bundle, ignored)) continue;
        for (const char *file : {"plan.json", "kernels.so"})
            if (!fs::exists(bundle / file, ignored))
                fail("the bundle {} has no {}: compile it again with cryolite compile", bundle.string(), file);
        return bundle;
    }
    fail(
        "there is no bundle {}.bundle in {}: compile it there with cryolite compile, give cryolite_add_bundle of CMake "
        "this OUTPUT_DIRECTORY, or name its folder in CRYOLITE_BUNDLES",
        name, fmt::join(looked, ", "));
}

}  // namespace cryolite
