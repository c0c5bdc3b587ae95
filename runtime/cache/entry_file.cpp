#include "runtime/cache/entry_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "bundle/plan_json.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr std::string_view magic = "cryolite cache entries 1\n";
constexpr size_t longest_list = 16 << 20;  // bytes of the line that lists the entries

/// The files that entries of a kind have; those without * may be missing.
const std::map<std::string, std::vector<std::string>> &files_of_kinds() {
    static const std::map<std::string, std::vector<std::string>> known = {
        {"bundles", {"plan.json*", "kernels.so*", "halide_runtime.so"}},
        {"descriptions", {"description.json*"}},
    };
    return known;
}

void check_files(const PackedEntry &e) {
    std::set<std::string> allowed;
    for (const std::string &name : files_of_kinds().at(e.kind)) {
        const bool needed = name.back() == '*';
        const std::string plain = needed ? name.substr(0, name.size() - 1) : name;
        if (needed && !e.files.count(plain)) fail("{}/{} has no {}", e.kind, e.key.substr(0, 12), plain);
        allowed.insert(plain);
    }
    for (const auto &[name, content] : e.files)
        if (!allowed.count(name)) fail("{}/{} has a file {}", e.kind, e.key.substr(0, 12), shown(name));
}

/// Checks that a bundle's key is the digest of what it was made from, as its manifest says.
void check_bundle(const PackedEntry &e) {
    const json about = json::parse(e.about, nullptr, false);
    if (!about.is_object() || !about.contains("parts") || !about["parts"].is_object())
        fail("bundles/{} does not say what it was made from", e.key.substr(0, 12));
    if (sha256_hex(about["parts"].dump(-1, ' ', false, json::error_handler_t::replace)) != e.key)
        fail("the key of bundles/{} is not the digest of what it was made from", e.key.substr(0, 12));
    read_plan(e.files.at("plan.json"), "bundles/" + e.key.substr(0, 12));
    if (!e.files.at("kernels.so").starts_with("\177ELF"))
        fail("kernels.so of bundles/{} is no shared library", e.key.substr(0, 12));
}

/// Reads one entry's line of the list, and its files from `at` on.
PackedEntry read_entry(const json &j, const std::string &bytes, size_t &at) {
    PackedEntry e{j.at("kind"), j.at("key"), j.at("about"), {}};
    if (!files_of_kinds().count(e.kind)) fail("it has an entry of the kind {}", shown(e.kind));
    if (e.key.size() != 64 || e.key.find_first_not_of("0123456789abcdef") != e.key.npos)
        fail("it has an entry with the key {}", shown(e.key));
    for (const json &file : j.at("files")) {
        const std::string name = file.at("name");
        if (!file.at("bytes").is_number_unsigned() || file["bytes"].get<uint64_t>() > bytes.size() - at)
            fail("it ends before the end of {}", shown(name));
        const size_t count = file["bytes"].get<size_t>();
        const auto [place, fresh] = e.files.emplace(name, bytes.substr(at, count));
        if (!fresh) fail("it has {} of one entry twice", shown(name));
        if (json(sha256_hex(place->second)) != file.at("sha256"))
            fail("{} has changed since it was exported", shown(name));
        at += count;
    }
    return e;
}

}  // namespace

std::string pack_entries(const std::vector<CacheEntry> &entries) {
    json list = json::array();
    std::string contents;
    for (const CacheEntry &e : entries) {
        json files = json::array();
        for (const auto &[name, file] : e.files) {
            const std::string content = file->read();
            files.push_back({{"name", name}, {"bytes", content.size()}, {"sha256", sha256_hex(content)}});
            contents += content;
        }
        list.push_back({{"kind", e.kind}, {"key", e.key}, {"about", e.about}, {"files", files}});
    }
    return std::string(magic) + list.dump() + "\n" + contents;
}

std::vector<PackedEntry> unpack_entries(const std::string &bytes, const std::string &origin) {
    try {
        if (!bytes.starts_with(magic)) fail("it was not written by `cryolite cache export` of this version");
        const size_t end = bytes.find('\n', magic.size());
        if (end == bytes.npos || end - magic.size() > longest_list) fail("it has no list of what is in it");
        const json list = json::parse(bytes.begin() + int64_t(magic.size()), bytes.begin() + int64_t(end));
        std::vector<PackedEntry> entries;
        std::set<std::pair<std::string, std::string>> known;
        size_t at = end + 1;
        for (const json &j : list) {
            PackedEntry e = read_entry(j, bytes, at);
            if (!known.emplace(e.kind, e.key).second) fail("it has {}/{} twice", e.kind, e.key.substr(0, 12));
            check_files(e);
            if (e.kind == "bundles") check_bundle(e);
            entries.push_back(std::move(e));
        }
        if (at != bytes.size()) fail("{} bytes follow its last entry", bytes.size() - at);
        return entries;
    } catch (const json::exception &) {
        fail("{} cannot be imported: its list of entries is damaged", origin);
    } catch (const Error &e) {
        fail("{} cannot be imported: {}", origin, e.what());
    }
}

}  // namespace cryolite
