#pragma once
// The cache of compiled entries on disk. CACHE/KIND/KEY/ holds the files of an entry and manifest.json, with KIND
// "bundles" (plan.json, kernels.so), "programs" (a user's compiled program) or "descriptions". CACHE/kernels/KEY.o is
// the compiler's kernel store. Entries are private to the user, published by one rename and verified on load. A damaged
// one counts as missing, with a message on stderr, and is made again.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/io/open_file.h"

namespace cryolite {

/// A lock that is held for as long as this object lives. A killed process leaves none behind.
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
    OpenFiles files;      ///< open, as they were checked: read and load these, because their names may be gone by then
    bool gone = false;    ///< there is none: it was cleared, or never made
    bool unread = false;  ///< it could not be read this time, and may be undamaged; `damage` says why
};

class Cache {
public:
    /// `folder` empty: $XDG_CACHE_HOME/cryolite, else ~/.cache/cryolite. Made with mode 0700. A folder that belongs to
    /// another user or is writable by others is refused, and so is such a folder of a kind in it. Errors name the path
    /// and `--cache DIR`.
    explicit Cache(const fs::path &folder = {});

    const fs::path &folder() const { return folder_; }
    fs::path kernels() const { return folder_ / "kernels"; }
    /// The object file of a kernel that a plan calls by this symbol, "cryolite_KEY"; it may not be there.
    fs::path kernel(const std::string &symbol) const {
        return kernels() / (symbol.substr(symbol.find('_') + 1) + ".o");
    }

    /// The entry `key` of `kind` if it is whole; a damaged one is removed with a message. Errors: it cannot be read.
    std::optional<CacheEntry> find(const std::string &kind, const std::string &key) const;

    /// Publishes the files that `fill(folder)` writes, with a manifest of their sizes and digests. `fill` returns a
    /// JSON text for the manifest, which `cache ls` and `cache why` read. A whole entry of another process that was
    /// first is kept, unless `replace`. Errors: those of `fill`; no permission or space, naming `--cache DIR`.
    CacheEntry publish(const std::string &kind, const std::string &key,
                       const std::function<std::string(const fs::path &)> &fill, bool replace = false) const;

    /// Waits for other processes that make the same entry, which `waiting_for` names on stderr. Where locks do not
    /// work, or after ten minutes, returns without the lock: publishing is safe without it.
    CacheLock lock(const std::string &kind, const std::string &key, const std::string &waiting_for) const;
    /// Waits without a limit; calls `waiting` once if it has to wait. Returns without the lock once `stopped` is true.
    CacheLock lock_patiently(const std::string &name, bool shared, const std::function<void()> &waiting,
                             const std::function<bool()> &stopped) const;
    /// Readers of the kernel store share the lock; whoever removes from the store waits until they are done.
    CacheLock lock_kernels(bool shared) const;

    /// Every entry of `kind`, newest first, with its `damage` and without open files. Removes nothing.
    std::vector<CacheEntry> list(const std::string &kind) const;
    /// Removes an entry; one that is gone already is no error.
    void remove(const std::string &kind, const std::string &key) const;
    /// Removes what killed processes left behind more than a day ago. Returns how many.
    int remove_leftovers() const;

private:
    CacheEntry examine(const std::string &kind, const std::string &key) const;
    struct Wait {
        int step_us = 100000, limit = 0;     ///< microseconds between two attempts; most attempts, 0: no limit
        std::function<void()> waiting = {};  ///< called at the second attempt
        std::function<bool()> stopped = {};
    };
    CacheLock acquire(const std::string &name, bool shared, const Wait &wait) const;
    CacheLock acquire(const std::string &name, bool shared, const std::string &waiting_for) const;

    fs::path folder_;
};

/// What is wrong with a file of the kernel store (its trailer: generators/codegen/kernel_store.h); empty: it is whole.
std::string kernel_damage(const fs::path &path);

}  // namespace cryolite
