#include "runtime/cache.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/error.h"
#include "runtime/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr const char *manifest_name = "manifest.json";

fs::path default_folder() {
    // The specification of XDG_CACHE_HOME: a path that is not absolute is ignored.
    if (const char *xdg = getenv("XDG_CACHE_HOME"); xdg && *xdg == '/')
        return fs::path(xdg) / "cryolite";
    if (const char *home = getenv("HOME"); home && *home == '/')
        return fs::path(home) / ".cache/cryolite";
    if (const passwd *user = getpwuid(geteuid()); user && user->pw_dir && *user->pw_dir == '/')
        return fs::path(user->pw_dir) / ".cache/cryolite";
    fail("this user has no home folder for the cache: name a folder with --cache DIR");
}

/// Why what is at `path` cannot be ours alone to write; empty: it is. `type`: S_IFDIR or S_IFREG.
std::string not_ours(const fs::path &path, mode_t type) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return errno == ENOENT ? "missing" : strerror(errno);
    if ((status.st_mode & S_IFMT) != type)
        return type == S_IFDIR ? "not a folder" : "not a regular file";
    if (status.st_uid != geteuid())
        return fmt::format("owned by user {}, not {}", status.st_uid, geteuid());
    if (status.st_mode & 022)
        return fmt::format("writable by others (mode {:o})", status.st_mode & 0777);
    return "";
}

std::string manifest_digest(json manifest) {
    manifest.erase("digest");
    return sha256_hex(manifest.dump());
}

json describe_files(const fs::path &folder) {
    json files = json::array();
    for (const fs::directory_entry &file : fs::directory_iterator(folder)) {
        if (!file.is_regular_file())
            fail("{} is no regular file: an entry of the cache holds nothing else",
                 file.path().string());
        files.push_back({{"name", file.path().filename().string()},
                         {"bytes", file.file_size()},
                         {"sha256", sha256_file(file.path())}});
    }
    return files;
}

/// The first thing that is wrong with the files that a manifest lists.
std::string files_damage(const json &files, const fs::path &folder, uint64_t &bytes) {
    std::set<std::string> expected = {manifest_name};
    for (const json &file : files) {
        const std::string name = file.at("name");
        const uint64_t size = file.at("bytes");
        expected.insert(name);
        if (fs::path(name).filename() != name || name == ".." || name == ".")
            return "the manifest names a file elsewhere";
        if (std::string why = not_ours(folder / name, S_IFREG); !why.empty())
            return name + " is " + why;
        const MappedFile content(folder / name);
        if (content.size() != size)
            return fmt::format("{} has {} bytes, not {}", name, content.size(), size);
        if (sha256_hex(content.bytes()) != file.at("sha256")) return name + " has changed";
        bytes += size;
    }
    for (const fs::directory_entry &file : fs::directory_iterator(folder))
        if (!expected.count(file.path().filename().string()))
            return "a file that does not belong to it: " + file.path().filename().string();
    return "";
}

/// Adds what helps to a message about a file of the cache.
[[noreturn]] void fail_cache(const std::string &message) {
    if (message.find("--cache") != std::string::npos) throw Error(message);
    throw Error(message + "\nThe cache can be elsewhere: --cache DIR");
}

}  // namespace

Cache::Cache(const fs::path &folder) {
    folder_ = fs::absolute(folder.empty() ? default_folder() : folder).lexically_normal();
    if (!folder_.has_filename()) folder_ = folder_.parent_path();
    try {
        make_private_dirs(folder_);
    } catch (const Error &e) {
        fail_cache(e.what());
    }
    std::error_code ignored;
    const fs::path real = fs::canonical(folder_, ignored);  // the user may have linked it elsewhere
    const std::string why = not_ours(ignored ? folder_ : real, S_IFDIR);
    if (!why.empty())
        fail("the cache folder {} is {}, so what is in it cannot be trusted: make it yours alone "
             "(chmod go-w) or name another with --cache DIR",
             folder_.string(), why);
}

CacheEntry Cache::examine(const std::string &kind, const std::string &key) const {
    CacheEntry entry{kind, key, folder_ / kind / key, "", 0, 0, ""};
    try {
        entry.damage = not_ours(entry.folder, S_IFDIR);
        if (!entry.damage.empty()) return entry;
        const fs::path path = entry.folder / manifest_name;
        if (std::string why = not_ours(path, S_IFREG); !why.empty()) {
            entry.damage = std::string(manifest_name) + " is " + why;
            return entry;
        }
        const json manifest = json::parse(read_file(path));
        if (manifest.at("digest") != manifest_digest(manifest)) {
            entry.damage = std::string(manifest_name) + " has changed";
        } else if (manifest.at("key") != key || manifest.at("kind") != kind) {
            entry.damage = "it was made as another entry";
        } else {
            entry.about = manifest.at("about");
            entry.time = manifest.at("time");
            entry.damage = files_damage(manifest.at("files"), entry.folder, entry.bytes);
        }
    } catch (const json::exception &) {
        entry.damage = std::string(manifest_name) + " cannot be read";
    } catch (const std::exception &e) {
        entry.damage = e.what();
    }
    return entry;
}

std::optional<CacheEntry> Cache::find(const std::string &kind, const std::string &key) const {
    struct stat status {};
    if (lstat((folder_ / kind / key).c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
    CacheEntry entry = examine(kind, key);
    if (entry.damage.empty()) return entry;
    // Another process may have replaced it while it was read.
    if (CacheEntry again = examine(kind, key); again.damage.empty()) return again;
    tell("cache: {}/{} is damaged ({}); it is not used", kind, key.substr(0, 16),
               entry.damage);
    std::error_code ignored;
    try {
        if (fs::exists(fs::symlink_status(entry.folder, ignored))) remove_folder(entry.folder);
    } catch (const Error &) {  // publishing replaces it, or says why it cannot
    }
    return std::nullopt;
}

CacheEntry Cache::publish(const std::string &kind, const std::string &key,
                          const std::function<std::string(const fs::path &)> &fill,
                          bool replace) const {
    using IfExists = TemporaryFolder::IfExists;
    const fs::path path = folder_ / kind / key;
    std::optional<TemporaryFolder> temporary;
    try {
        temporary.emplace(path, 0700);
    } catch (const Error &e) {
        fail_cache(e.what());
    }
    const std::string about = fill(temporary->path());
    try {
        json manifest = {{"format", 1},    {"kind", kind},
                         {"key", key},     {"time", time(nullptr)},
                         {"about", about}, {"files", describe_files(temporary->path())}};
        manifest["digest"] = manifest_digest(manifest);
        write_file_atomic(temporary->path() / manifest_name, manifest.dump(), 0600);
        if (!temporary->publish(replace ? IfExists::replace : IfExists::keep)) {
            CacheEntry first = examine(kind, key);
            if (first.damage.empty()) return first;
            temporary->publish(IfExists::replace);
        }
    } catch (const Error &e) {
        fail_cache(e.what());
    } catch (const fs::filesystem_error &e) {
        fail_cache(e.what());
    }
    CacheEntry entry = examine(kind, key);
    if (!entry.damage.empty())
        fail_cache(
            fmt::format("{} was written but does not verify: {}", path.string(), entry.damage));
    return entry;
}

std::vector<CacheEntry> Cache::list(const std::string &kind) const {
    std::vector<CacheEntry> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder_ / kind, error), end; !error && at != end;
         at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (!name.starts_with(".")) entries.push_back(examine(kind, name));
    }
    std::sort(entries.begin(), entries.end(), [](const CacheEntry &a, const CacheEntry &b) {
        return std::pair(-a.time, a.key) < std::pair(-b.time, b.key);
    });
    return entries;
}

void Cache::remove(const std::string &kind, const std::string &key) const {
    try {
        remove_folder(folder_ / kind / key);
    } catch (const Error &e) {
        fail_cache(e.what());
    }
}

int Cache::remove_leftovers() const {
    int removed = 0;
    const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
    std::error_code error;
    for (const char *kind : {"bundles", "programs", "descriptions", "kernels"})
        for (fs::directory_iterator at(folder_ / kind, error), end; !error && at != end;
             at.increment(error)) {
            std::error_code ignored;
            const bool old = fs::last_write_time(at->path(), ignored) < yesterday && !ignored;
            if (old && at->path().filename().string().starts_with(".tmp-"))
                removed += fs::remove_all(at->path(), ignored) > 0 && !ignored;
        }
    return removed;
}

}  // namespace cryolite
