#include "runtime/plan/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/io/error.h"

namespace cryolite {

struct Library::Loaded {
    std::shared_ptr<const OpenFile> file;
    void *handle = nullptr;
    ~Loaded() {
        if (handle) dlclose(handle);
    }
};

// The loader identifies a library by its path, here the number of a file descriptor. So a file is loaded only once, and
// its descriptor stays open for as long, so that no other file gets this number.
Library::Library(std::shared_ptr<const OpenFile> file, const std::string &what, For whom) {
    static std::mutex mutex;
    static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Loaded>> known;
    static std::vector<std::shared_ptr<Loaded>> kept;
    const std::lock_guard lock(mutex);
    struct stat status {};
    if (fstat(file->descriptor(), &status) != 0) fail_file("examine", file->path(), errno);
    std::weak_ptr<Loaded> &entry = known[{status.st_dev, status.st_ino}];
    loaded_ = entry.lock();
    if (loaded_) return;
    loaded_ = std::make_shared<Loaded>(std::move(file));
    const int how = RTLD_NOW | (whom == For::everybody ? RTLD_GLOBAL | RTLD_NODELETE : RTLD_LOCAL);
    loaded_->handle = dlopen(loaded_->file->link().c_str(), how);
    if (!loaded_->handle) {
        const std::string why = dlerror();
        const bool of_program = why.find("undefined symbol: halide_") != std::string::npos ||
                                why.find("undefined symbol: cryolite_multiply_") != std::string::npos;
        fail("cannot load {} {}: {}{}", what, loaded_->file->path().string(), why,
             of_program ? "; the program has to export it: link the CMake target Cryolite::runtime, or with "
                          "-Wl,--export-dynamic-symbol='halide_*' -Wl,--undefined=cryolite_multiply_tiles "
                          "-Wl,--export-dynamic-symbol='cryolite_multiply_*'"
                        : "");
    }
    entry = loaded_;
    if (whom == For::everybody) kept.push_back(loaded_);
}

void *Library::symbol(const std::string &name) const { return dlsym(loaded_->handle, name.c_str()); }

}  // namespace cryolite
