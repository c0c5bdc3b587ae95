#pragma once
// Precompiled bundles on disk: CACHE/bundles/KEY/{plan.json,kernels.so,manifest.json}, CACHE/kernels/KEY.o,
// CACHE/programs/KEY/. Private to the user, published by one rename, verified on load; whatever is damaged
// is a miss with a word on stderr, and is made again.

#include <functional>
#include <optional>
#include <string>

#include "runtime/files.h"

namespace cryolite {

class Cache {
public:
    /// `folder` empty: $XDG_CACHE_HOME/cryolite, else ~/.cache/cryolite. Made with mode 0700; a folder that
    /// belongs to another user or is writable by others is refused. Errors name the path and `--cache DIR`.
    explicit Cache(const fs::path &folder = {});

    const fs::path &folder() const { return folder_; }
    fs::path kernels() const { return folder_ / "kernels"; }

    /// The entry `key` of `kind` ("bundles", "programs") if it is whole; a damaged one is removed with a word.
    std::optional<fs::path> find(const std::string &kind, const std::string &key) const;
    /// Publishes what `fill(folder)` writes, with a manifest of sizes and digests and `about`, a JSON text that
    /// `cache ls` and `cache why` read. Returns its folder; where another process was first, that one's.
    fs::path publish(const std::string &kind, const std::string &key, const std::string &about,
                     const std::function<void(const fs::path &)> &fill) const;

private:
    fs::path folder_;
};

}  // namespace cryolite
