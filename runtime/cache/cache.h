#pragma once
// Precompiled things on disk. CACHE/KIND/KEY/ holds the files of an entry and manifest.json, with
// KIND "bundles" (plan.json, kernels.so), "programs" (a user's compiled program) or "descriptions";
// CACHE/kernels/KEY.o is the store of the compiler's half. Private to the user, published by one
// rename, verified on load; whatever is damaged is a miss with a word on stderr, and is made again.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/io/open_file.h"

namespace cryolite {

/// One process at a time, for as long as it lives. A killed process leaves none behind.
class CacheLock {
public:
    CacheLock() = default;
    explicit CacheLock(int descriptor) : descriptor_(descriptor) {}
    ~CacheLock();
    CacheLock(CacheLock &&other) noexcept;
    CacheLock(const CacheLock &) = delete;

private:
    int descriptor_ = -1;
};

struct CacheEntry {
    std::string kind, key;
    fs::path folder;
    std::string about;    ///< JSON text, by whoever published it
    uint64_t bytes = 0;   ///< of its files
    int64_t time = 0;     ///< when it was published, seconds since 1970
    std::string damage;   ///< why it must not be used; empty: it is whole
    OpenFiles files;      ///< as they were checked: read and load these, whose names may be gone by then
    bool gone = false;    ///< there is none: it was cleared, or never made
    bool unread = false;  ///< the system could not read it this time, which says nothing of its bytes; `damage` has why
};

class Cache {
public:
    /// `folder` empty: $XDG_CACHE_HOME/cryolite, else ~/.cache/cryolite. Made with mode 0700; a
    /// folder that belongs to another user or is writable by others is refused, and so is one of
    /// the kinds in it. Errors name the path and `--cache DIR`.
    explicit Cache(const fs::path &folder = {});

    const fs::path &folder() const { return folder_; }
    fs::path kernels() const { return folder_ / "kernels"; }
    /// The object file of a kernel that a plan calls by this symbol, "cryolite_KEY"; it may not be there.
    fs::path kernel(const std::string &symbol) const {
        return kernels() / (symbol.substr(symbol.find('_') + 1) + ".o");
    }

    /// The entry `key` of `kind` if it is whole; a damaged one is removed with a word. Errors: it cannot be read.
    std::optional<CacheEntry> find(const std::string &kind, const std::string &key) const;

    /// Publishes what `fill(folder)` writes, with a manifest of sizes and digests and what it
    /// returns: a JSON text that `cache ls` and `cache why` read. An entry that is there and whole
    /// is kept, because another process was first, unless `replace`. Errors: those of `fill`; no
    /// permission or space, naming `--cache DIR`.
    CacheEntry publish(const std::string &kind, const std::string &key,
                       const std::function<std::string(const fs::path &)> &fill, bool replace = false) const;

    /// Waits for other processes that make the same thing, which `waiting_for` names on stderr.
    /// Where locks do not work, or nothing happens for ten minutes, it goes on without: publishing
    /// is safe.
    CacheLock lock(const std::string &kind, const std::string &key, const std::string &waiting_for) const;
    /// Waits for as long as it takes; `waiting` is told once it does. `stopped` ends that: it goes on without the lock.
    CacheLock lock_patiently(const std::string &name, bool shared, const std::function<void()> &waiting,
                             const std::function<bool()> &stopped) const;
    /// Those who read the kernel store share it; who removes from it waits until they are done.
    CacheLock lock_kernels(bool shared) const;

    /// Every entry of `kind`, newest first, with `damage`, without open files; nothing is removed.
    std::vector<CacheEntry> list(const std::string &kind) const;
    /// One that is gone already is none to remove.
    void remove(const std::string &kind, const std::string &key) const;
    /// What killed processes left behind, where it is older than a day; how many.
    int remove_leftovers() const;

private:
    CacheEntry examine(const std::string &kind, const std::string &key) const;
    struct Wait {
        int step_us = 100000, limit = 0;     ///< how long between two looks; how many looks, 0: any
        std::function<void()> waiting = {};  ///< at the second look
        std::function<bool()> stopped = {};
    };
    CacheLock acquire(const std::string &name, bool shared, const Wait &wait) const;
    CacheLock acquire(const std::string &name, bool shared, const std::string &waiting_for) const;

    fs::path folder_;
};

/// What is wrong with a file of the kernel store (its trailer: generators/store.h); empty: whole.
std::string kernel_damage(const fs::path &path);

}  // namespace cryolite
