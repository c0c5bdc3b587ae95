#include "dialects/cublaslt/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>

namespace cryolite::of_cublaslt {

namespace {

constexpr size_t least_version = 11500;  // that of CUDA 11.4, the first whose driver is enough
constexpr const char *names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"};
constexpr const char *help = "or use --dialect halide";

std::string given() {
    const char *path = std::getenv("CRYOLITE_CUBLASLT");
    return path ? path : "";
}

void *open_library(std::string &name) {
    if (name = given(); !name.empty()) {
        if (void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
        throw std::runtime_error(
            fmt::format("CRYOLITE_CUBLASLT names {}, which cannot be loaded: {}", name, dlerror()));
    }
    for (const char *known : names)
        if (void *library = dlopen(name.assign(known).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw std::runtime_error(
        fmt::format("there is no {} here: install cuBLAS of the CUDA Toolkit and have the loader find it "
                    "(LD_LIBRARY_PATH), or name it in CRYOLITE_CUBLASLT; {}",
                    fmt::join(names, ", "), help));
}

Api load() {
    std::string name, missing;
    void *library = open_library(name);
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
    return api;
}

}  // namespace

const Api &Api::get() {
    static std::mutex lock;
    static auto &loaded = *new std::map<std::string, Api>;  // by what is named; libraries stay until the process ends
    const std::lock_guard hold(lock);
    auto at = loaded.find(given());
    if (at == loaded.end()) at = loaded.emplace(given(), load()).first;
    return at->second;
}

void Api::check(Status status, const std::string &what) const {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", what, status_name(status)));
}

}  // namespace cryolite::of_cublaslt
