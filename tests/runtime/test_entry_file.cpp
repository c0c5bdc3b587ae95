// Entries of a cache in one file: what comes out is what went in, and a file of anybody's is refused by what is wrong.

#include "runtime/cache/entry_file.h"

#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

const json parts = {{"program", "an id"}, {"params", {{"width", "8"}}}, {"machine", "x86_64"}};
const std::string key = sha256_hex(parts.dump()), other_key = sha256_hex("another");
const std::string plan = R"({"format":5,"task":"features","arena":0,"arena_unshared":0,"loss":0,"output":0,
    "evaluation":{"hindrance":"none"},"scalars":[],"scalar_values":[],"ids":[],"kernels":[],"plans":{},
    "buffers":[{"name":"loss","role":"activation","type":"float32","shape":[1],"bytes":4}]})";

std::string about() { return json{{"app", "test"}, {"kernels", 0}, {"parts", parts}}.dump(); }

/// A cache with a bundle and what its program says of itself; packed.
std::string packed(const Cache &cache) {
    cache.publish("bundles", key, [](const fs::path &folder) {
        write_plainly(folder / "plan.json", plan), write_plainly(folder / "kernels.so", "\177ELF and code");
        return about();
    });
    cache.publish("descriptions", other_key, [](const fs::path &folder) {
        write_plainly(folder / "description.json", "{}");
        return std::string("{\"program\": \"an id\"}");
    });
    return pack_entries({*cache.find("bundles", key), *cache.find("descriptions", other_key)});
}

/// A file of one entry as `list` describes it, with these contents.
std::string file_of(const json &list, const std::string &contents) {
    return "cryolite cache entries 1\n" + list.dump() + "\n" + contents;
}

json described(const std::string &name, const std::string &content) {
    return {{"name", name}, {"bytes", content.size()}, {"sha256", sha256_hex(content)}};
}

json bundle(json changes = json::object()) {
    json e = {{"kind", "bundles"},
              {"key", key},
              {"about", about()},
              {"files", {described("plan.json", plan), described("kernels.so", "\177ELF")}}};
    e.update(changes);
    return e;
}

std::string refusal(const std::string &bytes) {
    return error_of([&] { unpack_entries(bytes, "a file"); });
}
std::string refusal_of(const json &entry, const std::string &contents = plan + "\177ELF") {
    return refusal(file_of(json::array({entry}), contents));
}

}  // namespace

TEST_CASE("entry file: what went in comes out") {
    Scratch scratch;
    const std::vector<PackedEntry> entries = unpack_entries(packed(Cache(scratch / "cache")), "a file");
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].kind == "bundles");
    CHECK(entries[0].key == key);
    CHECK(entries[0].about == about());
    CHECK(entries[0].files.at("kernels.so") == "\177ELF and code");
    CHECK(entries[0].files.at("plan.json") == plan);
    CHECK(entries[1].files.at("description.json") == "{}");
    CHECK(refusal_of(bundle()) == "");
}

TEST_CASE("entry file: cut short anywhere, or with a byte changed anywhere, it is refused") {
    Scratch scratch;
    const std::string whole = packed(Cache(scratch / "cache"));
    for (size_t n = 0; n < whole.size(); n++) {
        CAPTURE(n);
        CHECK(contains(refusal(whole.substr(0, n)), "a file cannot be imported: "));
    }
    CHECK(refusal(whole + "x") == "a file cannot be imported: 1 bytes follow its last entry");
    const size_t contents = whole.find('\n', whole.find('\n') + 1) + 1;
    for (size_t n = contents; n < whole.size(); n++) {
        std::string bad = whole;
        bad[n] ^= 1;
        CAPTURE(n);
        CHECK(contains(refusal(bad), " has changed since it was exported"));
    }
    for (size_t n = 0; n < contents; n++) {  // of the list: whatever it says then, nothing is done beyond it
        std::string bad = whole;
        bad[n] ^= 1;
        try {
            for (const PackedEntry &e : unpack_entries(bad, "a file")) CHECK(e.files.size() <= 3);
        } catch (const Error &e) {
            CHECK(contains(e.what(), "a file cannot be imported: "));
        }
    }
}

TEST_CASE("entry file: what is wrong is named") {
    CHECK(contains(refusal(std::string("PK\3\4")), "it was not written by `cryolite cache export` of this version"));
    CHECK(
        contains(refusal("cryolite cache entries 1\n[" + std::string(100000, '[')), "it has no list of what is in it"));
    CHECK(contains(refusal("cryolite cache entries 1\n{}x\n"), "its list of entries is damaged"));
    CHECK(contains(refusal_of(bundle({{"kind", "programs"}})), "it has an entry of the kind \"programs\""));
    CHECK(contains(refusal_of(bundle({{"kind", "../bundles"}})), "it has an entry of the kind \"../bundles\""));
    CHECK(contains(refusal_of(bundle({{"key", "../../etc"}})), "it has an entry with the key \"../../etc\""));
    CHECK(contains(refusal_of(bundle({{"key", other_key}})), "is not the digest of what it was made from"));
    CHECK(contains(refusal_of(bundle({{"about", "{}"}})), "does not say what it was made from"));
    CHECK(contains(refusal_of(bundle({{"about", 3}})), "its list of entries is damaged"));
    for (const char *name : {"../kernels.so", "/etc/passwd", "manifest.json", "a/b", "", "..", "kernels.so\n"}) {
        CAPTURE(name);
        json e = bundle();
        e["files"].push_back(described(name, ""));
        CHECK(contains(refusal_of(e), "has a file "));
    }
    json twice = bundle();
    twice["files"].push_back(described("kernels.so", ""));
    CHECK(contains(refusal_of(twice), "it has \"kernels.so\" of one entry twice"));
    for (const json &bytes :
         {json(5000000000000000000u), json(18446744073709551615u), json(-1), json(2.5), json("4")}) {
        json e = bundle();
        e["files"][1]["bytes"] = bytes;
        CAPTURE(bytes.dump());
        CHECK(contains(refusal_of(e), "it ends before the end of \"kernels.so\""));
    }
    json lacks = bundle();
    lacks["files"].erase(1);
    CHECK(contains(refusal_of(lacks, plan), "has no kernels.so"));
    json text = bundle();
    text["files"][1] = described("kernels.so", "#!/bin/sh");
    CHECK(contains(refusal_of(text, plan + "#!/bin/sh"), "is no shared library"));
    json damaged = bundle();
    damaged["files"][0] = described("plan.json", "{}");
    CHECK(contains(refusal_of(damaged, "{}\177ELF"), "is damaged"));
    CHECK(contains(refusal(file_of(json::array({bundle(), bundle()}), plan + "\177ELF" + plan + "\177ELF")), " twice"));
}

}  // namespace cryolite::test
