#include "dialects/cublaslt/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cryolite::of_cublaslt {

namespace {

constexpr size_t least_version = 11500;  // ships with CUDA 11.4, the oldest whose driver the runtime accepts
constexpr int newest = 13, oldest = 11;  // CUDA's major versions, with which the libraries' names end
constexpr const char *help = "or use --dialect halide";

std::string given() {
    const char *path = std::getenv("CRYOLITE_CUBLASLT");
    return path ? path : "";
}

/// The major version of a driver's CUDA: 12040 is 12.4. 0: the driver is not known.
int major_of(int driver) { return driver / 1000; }

/// The major version of a library. The encoding of its versions changed: 11500 is 11.5, 120400 is 12.4.
int major_of(size_t version) { return int(version / (version < 100000 ? 1000 : 10000)); }

/// A library of a newer CUDA than the driver's loads but cannot compute. So the search starts at the driver's version.
void *open_library(std::string &name, int driver) {
    if (name = given(); !name.empty()) {
        if (void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
        throw std::runtime_error(
            fmt::format("CRYOLITE_CUBLASLT names {}, which cannot be loaded: {}", name, dlerror()));
    }
    std::vector<std::string> tried;
    for (int major = driver ? std::clamp(major_of(driver), oldest, newest) : newest; major >= oldest; major--) {
        name = tried.emplace_back(fmt::format("libcublasLt.so.{}", major));
        if (void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    throw std::runtime_error(fmt::format(
        "there is no {} here{}: install cuBLAS of the CUDA Toolkit and have the loader find it "
        "(LD_LIBRARY_PATH), or name it in CRYOLITE_CUBLASLT; {}",
        fmt::join(tried, ", "),
        driver ? fmt::format(", which the driver, that of CUDA {}.{}, could use", driver / 1000, driver % 1000 / 10)
               : "",
        help));
}

Api load(int driver) {
    std::string name, missing;
    void *library = open_library(name, driver);
    Api api{};
    auto find = [&](auto &f, const char *symbol) {
        f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, symbol));
        if (!f && missing.empty()) missing = symbol;
    };
    find(api.version, "cublasLtGetVersion"), find(api.status_name, "cublasLtGetStatusName");
    find(api.create, "cublasLtCreate"), find(api.destroy, "cublasLtDestroy");
    find(api.create_product, "cublasLtMatmulDescCreate"), find(api.destroy_product, "cublasLtMatmulDescDestroy");
    find(api.set_product, "cublasLtMatmulDescSetAttribute");
    find(api.create_matrix, "cublasLtMatrixLayoutCreate"), find(api.destroy_matrix, "cublasLtMatrixLayoutDestroy");
    find(api.set_matrix, "cublasLtMatrixLayoutSetAttribute");
    find(api.create_preference, "cublasLtMatmulPreferenceCreate");
    find(api.destroy_preference, "cublasLtMatmulPreferenceDestroy");
    find(api.set_preference, "cublasLtMatmulPreferenceSetAttribute");
    find(api.find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
    find(api.check_algorithm, "cublasLtMatmulAlgoCheck"), find(api.multiply, "cublasLtMatmul");
    const size_t version = api.version ? api.version() : 0;
    if (!missing.empty() && version == 0)
        throw std::runtime_error(fmt::format("{} has no function {}: it is no cuBLASLt; {}", name, missing, help));
    if (version < least_version || !missing.empty())
        throw std::runtime_error(
            fmt::format("{} is cuBLASLt {}, and 11.5 is needed, which CUDA 11.4 has; install a newer one, {}", name,
                        version, help));
    if (driver && major_of(version) > major_of(driver))
        throw std::runtime_error(fmt::format("{} is cuBLASLt {}, of CUDA {}, and the driver is that of CUDA {}.{}: "
                                             "update the driver of the GPU, install "
                                             "cuBLAS of CUDA {}, {}",
                                             name, version, major_of(version), driver / 1000, driver % 1000 / 10,
                                             major_of(driver), help));
    return api;
}

}  // namespace

const Api &Api::get(int driver) {
    static std::mutex lock;
    // The key is what CRYOLITE_CUBLASLT names, and the driver. Libraries stay loaded until the process ends.
    static auto &loaded = *new std::map<std::pair<std::string, int>, Api>;
    const std::lock_guard hold(lock);
    const std::pair key(given(), driver);
    auto at = loaded.find(key);
    if (at == loaded.end()) at = loaded.emplace(key, load(driver)).first;
    return at->second;
}

void Api::check(Status status, const std::string &what) const {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", what, status_name(status)));
}

}  // namespace cryolite::of_cublaslt
