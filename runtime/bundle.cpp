#include "runtime/bundle.h"

#include <dlfcn.h>

#include "runtime/error.h"

namespace cryolite {

namespace {

Plan plan_of(const fs::path &folder, const std::map<std::string, DialectChoice> &dialects) {
    Plan p = Plan::load(folder / "plan.json");
    p.choose(dialects);
    return p;
}

}  // namespace

Bundle::Bundle(const fs::path &given, const std::map<std::string, DialectChoice> &dialects)
    : folder(fs::absolute(given)), plan(plan_of(given, dialects)) {
    const fs::path path = library(), halide = folder / "halide_runtime.so";
    // It stays, and where several bundles bring one, all use the functions and the data of the first.
    if (fs::exists(halide) && !dlopen(halide.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE))
        fail("cannot load what the kernels need of Halide's runtime, {}: {}", halide.string(), dlerror());
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) fail("cannot load the kernels {}: {}", path.string(), dlerror());
    for (const PlanKernel &k : plan.kernels) {
        if (k.symbol.empty()) {
            functions_.push_back(nullptr);
            continue;
        }
        void *f = dlsym(library_, (k.symbol + "_argv").c_str());
        if (!f) fail("{} has no kernel {}", path.string(), k.symbol);
        functions_.push_back(reinterpret_cast<Function>(f));
    }
}

Bundle::~Bundle() {
    if (library_) dlclose(library_);
}

}  // namespace cryolite
