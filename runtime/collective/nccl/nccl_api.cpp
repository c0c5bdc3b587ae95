#include "runtime/collective/nccl/nccl_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr int oldest_nccl = 21300;  // the first with ncclGetLastError
constexpr const char *without_nccl = "or use one worker";

/// The library is never unloaded, because its threads stay.
void *open_nccl(std::string &name) {
    if (const char *given = std::getenv("CRYOLITE_NCCL"); given && *given) {
        if (void *library = dlopen((name = given).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
        fail("several workers with --device cuda: CRYOLITE_NCCL names {}, which cannot be loaded: {}", name, dlerror());
    }
    if (void *library = dlopen((name = "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    fail("several workers with --device cuda: there is no {} here, by which GPUs add gradients: install NCCL (NVIDIA's "
         "package libnccl2) and have the loader find it (LD_LIBRARY_PATH), or name it in CRYOLITE_NCCL; {}",
         name, without_nccl);
}

}  // namespace

NcclApi NcclApi::load() {
    std::string name, missing;
    void *library = open_nccl(name);
    NcclApi a{};
    auto find = [&](auto &f, const char *symbol) {
        f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, symbol));
        if (!f && missing.empty()) missing = symbol;
    };
    find(a.version, "ncclGetVersion"), find(a.unique_id, "ncclGetUniqueId"), find(a.join, "ncclCommInitRank");
    find(a.destroy, "ncclCommDestroy"), find(a.abort, "ncclCommAbort"), find(a.met, "ncclCommGetAsyncError");
    find(a.words_of, "ncclGetErrorString"), find(a.last_error, "ncclGetLastError");
    find(a.reduce_scatter, "ncclReduceScatter"), find(a.reduce, "ncclReduce"), find(a.all_gather, "ncclAllGather");
    find(a.broadcast, "ncclBroadcast"), find(a.begin_group, "ncclGroupStart"), find(a.end_group, "ncclGroupEnd");
    int version = 0;
    if (a.version) a.version(&version);
    if (version == 0)
        fail("several workers with --device cuda: {} has no ncclGetVersion: it is no NCCL; {}", name, without_nccl);
    if (version < oldest_nccl || !missing.empty())
        fail("several workers with --device cuda: {} is NCCL {}.{}, and 2.13 is needed{}: install a newer one, {}",
             name, version / (version < 10000 ? 1000 : 10000), version / 100 % (version < 10000 ? 10 : 100),
             missing.empty() ? "" : fmt::format(" (it has no {})", missing), without_nccl);
    return a;
}

void NcclApi::check(Code code, const std::string &what, Object comm) const {
    if (code == success || code == in_progress) return;
    const char *more = last_error(comm);
    fail("NCCL: {} failed: {}{}", what, words_of(code),
         more && *more ? fmt::format(" ({})", std::string_view(more).substr(0, 400)) : "");
}

}  // namespace cryolite
