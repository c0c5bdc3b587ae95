// Locks of the cache, and the check of a file of the kernel store.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/cache/cache.h"
#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

CacheLock::~CacheLock() {
    if (descriptor_ >= 0) close(descriptor_);
}

CacheLock::CacheLock(CacheLock &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

CacheLock Cache::acquire(const std::string &name, bool shared, const Wait &wait) const {
    const fs::path path = folder_ / "locks" / name;
    try {
        make_private_dirs(path.parent_path());
    } catch (const Error &) {
        return CacheLock();  // publishing will say what is wrong
    }
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) return CacheLock();
    CacheLock lock(descriptor);
    const int how = (shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
    for (int looks = 0; flock(descriptor, how) != 0; ++looks) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || (wait.limit && looks == wait.limit)) return CacheLock();
        if (wait.stopped && wait.stopped()) return CacheLock();
        if (looks == 1) wait.waiting();
        usleep(useconds_t(wait.step_us));
    }
    return lock;
}

CacheLock Cache::acquire(const std::string &name, bool shared, const std::string &waiting_for) const {
    return acquire(name, shared, {.limit = 6000, .waiting = [&] { tell("cache: waiting for {}", waiting_for); }});
}

// Tries often enough to find a gap between the locks of a process that locks again and again.
CacheLock Cache::lock_patiently(const std::string &name, bool shared, const std::function<void()> &waiting,
                                const std::function<bool()> &stopped) const {
    return acquire(name, shared, {.step_us = 5000, .waiting = waiting, .stopped = stopped});
}

// A few lock files for all keys: they are never removed, because removing one while another process
// waits for it would let two in. Two keys that share one only wait for each other.
CacheLock Cache::lock(const std::string &kind, const std::string &key, const std::string &waiting_for) const {
    return acquire(kind + "-" + key.substr(0, 2), false, waiting_for);
}

CacheLock Cache::lock_kernels(bool shared) const {
    return acquire("kernels", shared, "another process that uses the compiled kernels");
}

std::string kernel_damage(const fs::path &path) {
    try {
        const MappedFile file(path);
        const std::string_view bytes = as_text(file.bytes());
        const std::string key = path.stem().string(), begin = "\ncryolite kernel " + key + " ";
        const size_t trailer = begin.size() + 32 + 1;
        if (bytes.size() < trailer) return "truncated";
        const std::string_view content = bytes.substr(0, bytes.size() - trailer);
        const std::string expected = begin + sha256_hex(content).substr(0, 32) + "\n";
        return bytes.substr(content.size()) == expected ? "" : "its content has changed";
    } catch (const Error &e) {
        return e.what();
    }
}

}  // namespace cryolite
