#include "generators/codegen/kernel_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bundle/error.h"
#include "generators/lowering/hash.h"

namespace cryolite::compiler {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_write(const std::string &path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    fail("cannot write {}: {}{}", path, strerror(error), full ? "; make room there" : "");
}

struct Descriptor {
    int number;
    ~Descriptor() { close(number); }
};

/// Writes and syncs a file, so that errors which the system may report late (a full disk, a quota) show here.
void write_synced(const std::string &path, int flags, std::string_view bytes) {
    const Descriptor file{open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600)};
    if (file.number < 0) fail_write(path, errno);
    while (!bytes.empty()) {
        const ssize_t n = write(file.number, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail_write(path, n < 0 ? errno : ENOSPC);
        bytes.remove_prefix(size_t(n));
    }
    if (fsync(file.number) != 0 && errno != EINVAL) fail_write(path, errno);
}

/// A name `.tmp-...` beside `path`. By that name the cache finds and removes what a killed process has left.
std::string temporary(const std::string &path, const std::string &ending = "") {
    const fs::path p(path);
    return (p.parent_path() / fmt::format(".tmp-{}-{}{}", p.filename().string(), getpid(), ending)).string();
}

/// Runs `write(temporary)`, then renames that to `path`; whatever fails leaves nothing behind.
void replace(const std::string &path, const std::string &tmp, const std::function<void()> &write) {
    try {
        write();
        if (rename(tmp.c_str(), path.c_str()) != 0) fail_write(path, errno);
    } catch (...) {
        unlink(tmp.c_str());
        throw;
    }
}

std::string trailer(const std::string &key, const std::string &object) {
    return "\ncryolite kernel " + key + " " + digest(object) + "\n";
}

/// What is wrong with a kernel's file; empty: nothing.
std::string damage(const std::string &path, const std::string &key) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return strerror(errno);
    if (!S_ISREG(status.st_mode)) return "it is no regular file";
    if (status.st_uid != geteuid() || (status.st_mode & 022)) return "others can write it";
    const std::string bytes = read_whole(path);
    const size_t end = trailer(key, "").size();
    if (bytes.size() < end) return "it is truncated";
    const std::string object = bytes.substr(0, bytes.size() - end);
    return bytes.substr(object.size()) == trailer(key, object) ? "" : "its content has changed";
}

}  // namespace

std::string read_whole(const std::string &path) {
    const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.number < 0) fail("cannot read {}: {}", path, strerror(errno));
    std::string bytes;
    char block[1 << 16];
    for (;;) {
        const ssize_t n = read(file.number, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail("cannot read {}: {}", path, strerror(errno));
        if (n == 0) return bytes;
        bytes.append(block, size_t(n));
    }
}

void write_whole(const std::string &path, const std::string &bytes) {
    const std::string tmp = temporary(path);
    replace(path, tmp, [&] { write_synced(tmp, O_CREAT | O_TRUNC, bytes); });
}

KernelStore::KernelStore(std::string folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail("cannot make the kernel store {}: {}", folder_, error.message());
    struct stat status {};
    if (lstat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        fail("the kernel store {} is not a folder of this user: kernels there cannot be trusted; "
             "remove it",
             folder_);
    if (status.st_mode & 077) chmod(folder_.c_str(), 0700);
}

bool KernelStore::has(const std::string &key) const {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(path(key), ignored))) return false;
    std::string why;
    try {
        why = damage(path(key), key);
    } catch (const Error &e) {
        why = e.what();
    }
    // The file is not removed: another process may have replaced it by a whole one, and put() will replace it.
    if (!why.empty()) fmt::print(stderr, "cache: kernel {} is damaged ({}); it is compiled again\n", key, why);
    return why.empty();
}

void KernelStore::put(const std::string &key, const std::function<void(const std::string &)> &write) const {
    // The compiler chooses the format by the ending: it stays ".o".
    const std::string tmp = temporary(path(key), ".o");
    replace(path(key), tmp, [&] {
        write(tmp);
        if (chmod(tmp.c_str(), 0600) != 0) fail_write(tmp, errno);
        write_synced(tmp, O_APPEND, trailer(key, read_whole(tmp)));
    });
}

}  // namespace cryolite::compiler
