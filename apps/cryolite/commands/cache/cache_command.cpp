#include "apps/cryolite/commands/cache/cache_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/cryolite/cli/refusals.h"
#include "apps/cryolite/commands/cache/cache_carry.h"
#include "apps/cryolite/commands/cache/cache_why.h"
#include "client/nearest_bundle.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/search_records.h"
#include "runtime/cache/tuning.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr const char *kinds[] = {"bundles", "programs", "descriptions"};

bool is_hex(std::string_view text, size_t digits) {
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// Entries that a Cache made; whatever else is in the folder is not ours to touch.
std::vector<CacheEntry> entries_of(const Cache &cache, const std::string &kind) {
    std::vector<CacheEntry> entries = cache.list(kind);
    std::erase_if(entries, [](const CacheEntry &e) { return !is_hex(e.key, 64); });
    return entries;
}

std::vector<fs::path> kernels_of(const Cache &cache) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(cache.kernels(), error), end; !error && at != end; at.increment(error))
        if (at->path().extension() == ".o" && is_hex(at->path().stem().string(), 32)) files.push_back(at->path());
    std::sort(files.begin(), files.end());
    return files;
}

uint64_t size_of(const std::vector<fs::path> &files) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const fs::path &file : files)
        if (const uint64_t size = fs::file_size(file, error); !error) bytes += size;
    return bytes;
}

void remove_file(const fs::path &path) {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) fail_file("remove", path, errno);
}

/// How many times `--dialect auto` has measured. A missing file is not created, and a damaged one counts as empty.
int tuning_records(const Cache &cache) {
    if (!fs::exists(Tuning::file(cache.folder())) || !Tuning::damage(cache.folder()).empty()) return 0;
    return Tuning(cache.folder()).count();
}

/// How many candidates `tune` has measured.
int search_records(const Cache &cache) {
    if (!fs::exists(SearchRecords::file(cache.folder())) || !SearchRecords::damage(cache.folder()).empty()) return 0;
    return SearchRecords(cache.folder(), {}).count();
}

int list(const Cache &cache, bool as_json) {
    const std::vector<CacheEntry> bundles = entries_of(cache, "bundles");
    const std::vector<fs::path> kernels = kernels_of(cache);
    const int records = tuning_records(cache), candidates = search_records(cache);
    if (as_json) {
        json j = {{"folder", cache.folder().string()},
                  {"bundles", json::array()},
                  {"kernels", {{"count", kernels.size()}, {"bytes", size_of(kernels)}}},
                  {"tuning", {{"count", records}}},
                  {"searches", {{"count", candidates}}}};
        for (const CacheEntry &e : bundles)
            j["bundles"].push_back({{"key", e.key},
                                    {"bytes", e.bytes},
                                    {"time", e.time},
                                    {"damage", e.damage},
                                    {"about", json::parse(e.about, nullptr, false)}});
        // The folder's name need not be UTF-8.
        fmt::print("{}\n", j.dump(-1, ' ', false, json::error_handler_t::replace));
        return 0;
    }
    if (!bundles.empty())
        fmt::print("{:14}{:16}{:>8}{:>10}  {:10}{}\n", "BUNDLE", "APP", "KERNELS", "SIZE", "AGE", "FLAGS");
    for (const CacheEntry &e : bundles) {
        const BundleAbout about = bundle_about(e);
        fmt::print("{:14}{:16}{:>8}{:>10}  {:10}{}\n", e.key.substr(0, 12), about.app, about.kernels,
                   human_bytes(e.bytes), age_of(e), e.damage.empty() ? about.flags : "damaged: " + e.damage);
    }
    if (records) fmt::print("{} measured times in {}\n", records, Tuning::file(cache.folder()).string());
    if (candidates)
        fmt::print("{} candidates of searches in {}\n", candidates, SearchRecords::file(cache.folder()).string());
    fmt::print("{} bundle{} and {} kernel{} ({}) in {}\n", bundles.size(), bundles.size() == 1 ? "" : "s",
               kernels.size(), kernels.size() == 1 ? "" : "s", human_bytes(size_of(kernels)), cache.folder().string());
    return 0;
}

int verify(const Cache &cache) {
    const CacheLock lock = cache.lock_kernels(false);
    int good = 0, damaged = 0, unread = 0;
    for (const char *kind : kinds)
        for (const CacheEntry &e : entries_of(cache, kind)) {
            if (e.damage.empty()) {
                ++good;
                continue;
            }
            if (e.unread) {
                ++unread;
                fmt::print("{}/{}: {}; left as it is\n", kind, e.key.substr(0, 12), e.damage);
                continue;
            }
            ++damaged;
            fmt::print("{}/{}: {}; removed\n", kind, e.key.substr(0, 12), e.damage);
            cache.remove(kind, e.key);
        }
    for (const fs::path &file : kernels_of(cache)) {
        const std::string why = kernel_damage(file);
        if (why.empty()) {
            ++good;
            continue;
        }
        ++damaged;
        fmt::print("kernels/{}: {}; removed\n", file.filename().string(), why);
        remove_file(file);
    }
    if (const std::string why = Tuning::damage(cache.folder()); !why.empty()) {
        ++damaged;
        fmt::print("tuning.sqlite: {}; removed\n", why);
        Tuning::remove(cache.folder());
    } else if (tuning_records(cache)) {
        ++good;
    }
    if (const std::string why = SearchRecords::damage(cache.folder()); !why.empty()) {
        ++damaged;
        fmt::print("searches.sqlite: {}; removed\n", why);
        SearchRecords::remove(cache.folder());
    } else if (search_records(cache)) {
        ++good;
    }
    const int leftovers = cache.remove_leftovers();
    if (leftovers) fmt::print("removed {} unfinished entries of processes that were killed\n", leftovers);
    fmt::print("{} whole, {} damaged and removed{} in {}\n", good, damaged,
               unread ? fmt::format(", {} that could not be read", unread) : "", cache.folder().string());
    return damaged || unread ? 1 : 0;
}

/// The one entry whose key begins with `prefix`. Throws UsageError if there is none, or more than one.
CacheEntry entry_named(const Cache &cache, const std::string &prefix) {
    std::vector<CacheEntry> found;
    for (const char *kind : kinds)
        for (const CacheEntry &e : entries_of(cache, kind))
            if (e.key.starts_with(prefix)) found.push_back(e);
    if (found.empty())
        fail_usage("no entry of {} begins with {}; see cryolite cache ls", cache.folder().string(), shown(prefix));
    if (found.size() > 1) fail_usage("{} entries begin with {}: give more of the key", found.size(), shown(prefix));
    return found[0];
}

int clear(const Cache &cache, const std::string &key) {
    const CacheLock lock = cache.lock_kernels(false);
    if (!key.empty()) {
        const CacheEntry e = entry_named(cache, key);
        cache.remove(e.kind, e.key);
        fmt::print("removed {}/{}; kernels that others may share were kept\n", e.kind, e.key.substr(0, 12));
        return 0;
    }
    size_t entries = 0;
    for (const char *kind : kinds)
        for (const CacheEntry &e : entries_of(cache, kind)) {
            cache.remove(kind, e.key);
            ++entries;
        }
    const std::vector<fs::path> kernels = kernels_of(cache);
    const uint64_t bytes = size_of(kernels);
    for (const fs::path &file : kernels) remove_file(file);
    const int records = tuning_records(cache);
    Tuning::remove(cache.folder());
    const int candidates = search_records(cache);
    SearchRecords::remove(cache.folder());
    cache.remove_leftovers();
    fmt::print("removed {} entries and {} kernels ({}){}{} from {}\n", entries, kernels.size(), human_bytes(bytes),
               records ? fmt::format(", {} measured times", records) : "",
               candidates ? fmt::format(", {} candidates of searches", candidates) : "", cache.folder().string());
    return 0;
}

/// Throws UsageError if a folder that was named is not there: this command creates none.
void check_folder(const fs::path &folder) {
    std::error_code error;
    if (folder.empty()) return;
    if (!fs::is_directory(folder, error)) fail_usage("there is no cache in {}: check the spelling", folder.string());
    if (access(folder.c_str(), R_OK | X_OK) != 0)
        fail_usage("cannot read the cache in {}: {}", folder.string(), strerror(errno));
}

}  // namespace

int run_cache(const std::vector<std::string> &arguments) {
    CLI::App app{"Looks after the cache of compiled bundles and kernels.", "cryolite cache"};
    app.require_subcommand(1);
    std::string folder, key, file;
    bool as_json = false;
    auto add = [&](const char *name, const char *about) {
        CLI::App *sub = app.add_subcommand(name, about);
        sub->add_option("--cache", folder, "the cache's folder (default: $XDG_CACHE_HOME/cryolite)");
        return sub;
    };
    CLI::App *ls = add("ls", "lists the bundles");
    ls->add_flag("--json", as_json, "as one line of JSON");
    CLI::App *check = add("verify", "checks every digest and removes what is damaged; status 1 if any was");
    CLI::App *remove = add("clear", "removes everything, or one entry");
    remove->add_option("KEY", key, "the beginning of a bundle's key");
    CLI::App *take = add("import", "takes in what `cache export` wrote: a file of somebody you trust, it has programs");
    take->add_option("FILE", file, "the file")->required();
    CLI::App *carry = add("export", "writes bundles into one file, for another machine");
    carry->add_option("FILE", file, "the file")->required();
    carry->add_option("KEY", key, "the beginning of a bundle's key; without it all");
    CLI::App *why =
        app.add_subcommand("why", "why a bundle would be compiled: APP and the flags of train")->prefix_command();
    why->set_help_flag();
    read_line(app, arguments, "cache");
    if (why->parsed()) return run_cache_why(why->remaining());
    if ((remove->count("KEY") || carry->count("KEY")) && key.empty()) fail_usage("KEY is empty: see cryolite cache ls");
    if (take->parsed()) return import_entries(Cache(folder), file);
    check_folder(folder);
    const Cache cache(folder);
    if (carry->parsed()) return export_entries(cache, file, key);
    if (ls->parsed()) return list(cache, as_json);
    if (check->parsed()) return verify(cache);
    return clear(cache, key);
}

}  // namespace cryolite
