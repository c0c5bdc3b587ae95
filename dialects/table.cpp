#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>

#include "dialects/dialect.h"

namespace cryolite {

const std::vector<DialectLine> &dialect_table() {
    static const std::vector<DialectLine> table = {
        {"cublaslt", "cuda", "", of_cublaslt::why_not, of_cublaslt::workspace},
        {"onednn", "cpu", "libdnnl-dev", of_onednn::why_not},
    };
    return table;
}

const DialectLine *find_dialect(const std::string &name) {
    for (const DialectLine &d : dialect_table())
        if (d.name == name) return &d;
    return nullptr;
}

std::string dialect_names() {
    std::string names = "halide";
    for (const DialectLine &d : dialect_table()) names += " or " + d.name;
    return names;
}

/// Each dialect is a library of its own in the build's folder `dialects`, beside the folder of the running program. A
/// program that does not ask for a dialect neither needs nor loads its library.
const Dialect *load_dialect(const std::string &name) {
    namespace fs = std::filesystem;
    static std::mutex lock;
    static std::map<std::string, const Dialect *> loaded;
    const std::lock_guard hold(lock);
    if (auto known = loaded.find(name); known != loaded.end()) return known->second;
    if (!find_dialect(name)) return nullptr;
    std::error_code error;
    const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
    const fs::path path = here.parent_path() / "dialects" / ("lib" + name + ".so");
    if (!fs::exists(path, error)) return loaded[name] = nullptr;
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        throw std::runtime_error(fmt::format("cannot load {}: {}; {}", path.string(), dlerror(), how_to_get(name)));
    auto *get = reinterpret_cast<const Dialect *(*)()>(dlsym(library, "cryolite_dialect"));
    if (!get)
        throw std::runtime_error(fmt::format("{} is of another version: build again with ./cryolite", path.string()));
    return loaded[name] = get();
}

std::string how_to_get(const std::string &name) {
    const DialectLine *d = find_dialect(name);
    if (d && d->package.empty()) return "build again with ./cryolite: it needs nothing that could be missing";
    return fmt::format("install the package '{}', remove build/.configured and run ./cryolite again",
                       d ? d->package : name);
}

}  // namespace cryolite
