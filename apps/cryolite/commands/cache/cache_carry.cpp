#include "apps/cryolite/commands/cache/cache_carry.h"

#include <nlohmann/json.hpp>
#include <set>

#include "apps/cryolite/cli/refusals.h"
#include "client/nearest_bundle.h"
#include "runtime/cache/entry_file.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// The program that a bundle or a description belongs to; empty: the entry does not say.
std::string program_of(const CacheEntry &e) {
    const json about = json::parse(e.about, nullptr, false);
    if (!about.is_object()) return "";
    const json &where = e.kind == "bundles" && about.contains("parts") ? about["parts"] : about;
    return where.is_object() && where.contains("program") && where["program"].is_string() ? where["program"] : "";
}

/// The entry with its files open, which `Cache::list` does not open.
CacheEntry opened(const Cache &cache, const CacheEntry &e) {
    std::optional<CacheEntry> found = cache.find(e.kind, e.key);
    if (!found) fail("{}/{} was removed by another process meanwhile: export again", e.kind, e.key.substr(0, 12));
    return std::move(*found);
}

}  // namespace

int export_entries(const Cache &cache, const fs::path &file, const std::string &key) {
    std::vector<CacheEntry> entries;
    std::set<std::string> programs;
    for (const CacheEntry &e : cache.list("bundles"))
        if (e.damage.empty() && e.key.starts_with(key))
            entries.push_back(opened(cache, e)), programs.insert(program_of(e));
    const size_t bundles = entries.size();
    if (bundles == 0)
        fail_usage("{} has no whole bundle{}: `cryolite compile` makes one, see cryolite cache ls",
                   cache.folder().string(), key.empty() ? "" : " whose key begins with " + shown(key));
    if (bundles > 1 && !key.empty()) fail_usage("{} bundles begin with {}: give more of the key", bundles, shown(key));
    for (const CacheEntry &e : cache.list("descriptions"))
        if (e.damage.empty() && programs.count(program_of(e))) entries.push_back(opened(cache, e));
    const std::string packed = pack_entries(entries);
    unpack_entries(packed, file.string());  // checks that the file can be imported
    write_file_atomic(file, packed);
    fmt::print("{} bundle{} ({}) in {}\n", bundles, bundles == 1 ? "" : "s", human_bytes(packed.size()), file.string());
    return 0;
}

int import_entries(const Cache &cache, const fs::path &file) {
    const std::vector<PackedEntry> entries = unpack_entries(read_file(file), file.string());
    int bundles = 0;
    for (const PackedEntry &e : entries) {
        const CacheEntry entry = cache.publish(e.kind, e.key, [&](const fs::path &folder) {
            for (const auto &[name, content] : e.files) write_file_atomic(folder / name, content, 0600);
            return e.about;
        });
        if (e.kind != "bundles") continue;
        const BundleAbout about = bundle_about(entry);
        fmt::print("{:14}{} {}\n", e.key.substr(0, 12), about.app, about.flags);
        bundles++;
    }
    fmt::print("{} bundle{} in {}\n", bundles, bundles == 1 ? "" : "s", cache.folder().string());
    return 0;
}

}  // namespace cryolite
