#include "runtime/cache/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/io/error.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr const char *manifest_name = "manifest.json";

fs::path default_folder() {
    // The specification of XDG_CACHE_HOME: a path that is not absolute is ignored.
    if (const char *xdg = getenv("XDG_CACHE_HOME"); xdg && *xdg == '/') return fs::path(xdg) / "cryolite";
    if (const char *home = getenv("HOME"); home && *home == '/') return fs::path(home) / ".cache/cryolite";
    if (const passwd *user = getpwuid(geteuid()); user && user->pw_dir && *user->pw_dir == '/')
        return fs::path(user->pw_dir) / ".cache/cryolite";
    fail("this user has no home folder for the cache: name a folder with --cache DIR");
}

std::string manifest_digest(json manifest) {
    manifest.erase("digest");
    return sha256_hex(manifest.dump());
}

/// The names in a folder that is open.
std::vector<std::string> names_in(const Descriptor &folder) {
    std::vector<std::string> names;
    DIR *list = fdopendir(openat(folder.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!list) fail("its folder cannot be listed: {}", strerror(errno));
    while (const dirent *entry = readdir(list))
        if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
    closedir(list);
    return names;
}

/// Describes and opens the files that were made in `folder` for `entry`. Group and others lose the permission to write
/// them.
json describe_files(const fs::path &folder, CacheEntry &entry) {
    const Trusted trusted = open_trusted(AT_FDCWD, folder, S_IFDIR);
    if (!trusted.why.empty()) fail("{} is {}", folder.string(), trusted.why);
    json list = json::array();
    for (const std::string &name : names_in(trusted.descriptor)) {
        struct stat status {};
        if (fstatat(trusted.descriptor.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            fail("{} is no regular file: an entry of the cache holds nothing else", (folder / name).string());
        if (fchmodat(trusted.descriptor.number(), name.c_str(), status.st_mode & 0755, 0) != 0)
            fail_file("change the mode of", folder / name, errno);
        Trusted file = open_trusted(trusted.descriptor.number(), name, S_IFREG);
        if (!file.why.empty()) fail("{} is {}", (folder / name).string(), file.why);
        const auto open = std::make_shared<const OpenFile>(entry.folder / name, std::move(file.descriptor));
        const uint64_t size = open->size();
        list.push_back({{"name", name}, {"bytes", size}, {"sha256", open->sha256()}});
        entry.files[name] = open;
        entry.bytes += size;
    }
    return list;
}

/// Opens the files that a manifest lists into `entry`. Returns the first thing that is wrong with them, or "".
std::string files_damage(const json &files, const Descriptor &folder, CacheEntry &entry) {
    std::set<std::string> expected = {manifest_name};
    for (const json &file : files) {
        const std::string name = file.at("name");
        expected.insert(name);
        if (fs::path(name).filename() != name || name == ".." || name == "." || name.find('\0') != name.npos)
            return "its manifest names a file outside of the entry";
        Trusted trusted = open_trusted(folder.number(), name, S_IFREG);
        if (!trusted.why.empty()) return name + " is " + trusted.why;
        const auto content = std::make_shared<const OpenFile>(entry.folder / name, std::move(trusted.descriptor));
        const uint64_t size = file.at("bytes"), found = content->size();
        if (found != size) return fmt::format("{} has {} bytes, not {}", name, found, size);
        if (json(content->sha256()) != file.at("sha256")) return name + " has changed";
        entry.bytes += size;
        entry.files[name] = content;
    }
    for (const std::string &name : names_in(folder))
        if (!expected.count(name)) return "a file that does not belong to it: " + name;
    return "";
}

/// Throws a message about a file of the cache, with what helps.
[[noreturn]] void fail_cache(const std::string &message) {
    if (message.find("--cache") != std::string::npos) throw Error(message);
    throw Error(message + "\nThe cache can be elsewhere: --cache DIR");
}

/// Throws without touching the entry: another attempt may find it whole.
[[noreturn]] void fail_unread(const CacheEntry &entry) {
    fail_cache(fmt::format("{} could not be read, and is left as it is: {}", entry.folder.string(), entry.damage));
}

/// Throws where `why` says that others may write a folder of the cache. A folder that is missing is no error.
void refuse_untrusted(const fs::path &folder, const std::string &why) {
    if (!why.empty() && why != "missing")
        fail("the cache folder {} is {}, so what is in it cannot be trusted: make it yours alone "
             "(chmod go-w) or name another with --cache DIR",
             folder.string(), why);
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
    // The root may be a link of the user's; nothing in it may be one.
    const Trusted root = open_trusted(AT_FDCWD, folder_, S_IFDIR, true);
    refuse_untrusted(folder_, root.why);
    for (const char *part : {"bundles", "programs", "descriptions", "kernels", "locks"})
        refuse_untrusted(folder_ / part, open_trusted(root.descriptor.number(), part, S_IFDIR).why);
}

/// Checks an entry's manifest and files, each opened once and checked through its descriptor, as are its folders.
CacheEntry Cache::examine(const std::string &kind, const std::string &key) const {
    CacheEntry entry{kind, key, folder_ / kind / key, "", 0, 0, "", {}};
    try {
        const Trusted root = open_trusted(AT_FDCWD, folder_, S_IFDIR, true);
        const Trusted above = open_trusted(root.descriptor.number(), kind, S_IFDIR);
        const Trusted folder = open_trusted(above.descriptor.number(), key, S_IFDIR);
        entry.gone = above.why == "missing" || folder.why == "missing";
        for (const auto &[name, part] :
             {std::pair{folder_.string(), &root}, {kind, &above}, {std::string("its folder"), &folder}})
            if (!part->why.empty()) return entry.damage = name + " is " + part->why, entry;
        Trusted file = open_trusted(folder.descriptor.number(), manifest_name, S_IFREG);
        if (!file.why.empty()) return entry.damage = std::string(manifest_name) + " is " + file.why, entry;
        const json manifest = json::parse(OpenFile(entry.folder / manifest_name, std::move(file.descriptor)).read());
        if (manifest.at("digest") != manifest_digest(manifest)) {
            entry.damage = std::string(manifest_name) + " has changed";
        } else if (manifest.at("key") != key || manifest.at("kind") != kind) {
            entry.damage = "its manifest is that of another entry";
        } else {
            entry.about = manifest.at("about");
            entry.time = manifest.at("time");
            entry.damage = files_damage(manifest.at("files"), folder.descriptor, entry);
        }
    } catch (const json::exception &) {
        entry.damage = std::string(manifest_name) + " cannot be read";
    } catch (const FileError &e) {
        entry.damage = e.what(), entry.unread = !e.missing();
    } catch (const std::exception &e) {
        entry.damage = e.what();
    }
    if (!entry.damage.empty()) entry.files.clear();
    return entry;
}

std::optional<CacheEntry> Cache::find(const std::string &kind, const std::string &key) const {
    CacheEntry entry = examine(kind, key);
    // Another process may have replaced it while it was read.
    if (!entry.damage.empty() && !entry.gone) entry = examine(kind, key);
    if (entry.damage.empty()) return entry;
    if (entry.gone) return std::nullopt;  // never there, or cleared meanwhile
    if (entry.unread) fail_unread(entry);
    tell("cache: {}/{} is damaged ({}); it is not used", kind, key.substr(0, 16), entry.damage);
    try {
        remove(kind, key);
    } catch (const Error &) {  // publishing replaces it, or says why it cannot
    }
    return std::nullopt;
}

CacheEntry Cache::publish(const std::string &kind, const std::string &key,
                          const std::function<std::string(const fs::path &)> &fill, bool replace) const {
    using IfExists = TemporaryFolder::IfExists;
    CacheEntry entry{kind, key, folder_ / kind / key, "", 0, 0, "", {}};
    std::optional<TemporaryFolder> temporary;
    try {
        temporary.emplace(entry.folder, 0700);
    } catch (const Error &e) {
        fail_cache(e.what());
    }
    refuse_untrusted(folder_ / kind, open_trusted(AT_FDCWD, folder_ / kind, S_IFDIR).why);
    entry.about = fill(temporary->path());
    entry.time = time(nullptr);
    try {
        json manifest = {{"format", 1},          {"kind", kind},
                         {"key", key},           {"time", entry.time},
                         {"about", entry.about}, {"files", describe_files(temporary->path(), entry)}};
        manifest["digest"] = manifest_digest(manifest);
        write_file_atomic(temporary->path() / manifest_name, manifest.dump(), 0600);
        if (!temporary->publish(replace ? IfExists::replace : IfExists::keep)) {
            CacheEntry first = examine(kind, key);
            if (first.damage.empty()) return first;
            if (first.unread) fail_unread(first);
            temporary->publish(IfExists::replace);
        }
    } catch (const Error &e) {
        fail_cache(e.what());
    } catch (const fs::filesystem_error &e) {
        fail_cache(e.what());
    }
    return entry;
}

std::vector<CacheEntry> Cache::list(const std::string &kind) const {
    std::vector<CacheEntry> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder_ / kind, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with(".")) continue;
        CacheEntry entry = examine(kind, name);
        entry.files.clear();  // else the files of many entries would be open at once
        if (!entry.gone) entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(), [](const CacheEntry &a, const CacheEntry &b) {
        return std::pair(-a.time, a.key) < std::pair(-b.time, b.key);
    });
    return entries;
}

void Cache::remove(const std::string &kind, const std::string &key) const {
    const fs::path path = folder_ / kind / key;
    std::error_code ignored;
    try {
        remove_folder(path);
    } catch (const Error &e) {
        if (fs::exists(fs::symlink_status(path, ignored))) fail_cache(e.what());
    }
}

int Cache::remove_leftovers() const {
    int removed = 0;
    const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
    std::error_code error;
    for (const char *kind : {"bundles", "programs", "descriptions", "kernels"})
        for (fs::directory_iterator at(folder_ / kind, error), end; !error && at != end; at.increment(error)) {
            std::error_code ignored;
            const bool old = fs::last_write_time(at->path(), ignored) < yesterday && !ignored;
            if (old && at->path().filename().string().starts_with(".tmp-"))
                removed += fs::remove_all(at->path(), ignored) > 0 && !ignored;
        }
    return removed;
}

}  // namespace cryolite
