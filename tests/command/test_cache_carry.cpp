// `cache export` and `cache import`: a bundle that another cache has, and files that are refused whole.

#include <nlohmann/json.hpp>

#include "apps/cryolite/commands/cache/cache_command.h"
#include "runtime/cache/cache.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

const std::string plan = R"({"format":5,"task":"features","arena":0,"arena_unshared":0,"loss":0,"output":0,
    "evaluation":{"hindrance":"none"},"scalars":[],"scalar_values":[],"ids":[],"kernels":[],"plans":{},
    "buffers":[{"name":"loss","role":"activation","type":"float32","shape":[1],"bytes":4}]})";

/// A bundle of this program, and the program's description; the bundle's key.
std::string publish(const Cache &cache, const std::string &program) {
    const json parts = {{"program", program}, {"params", json::object()}};
    const std::string key = sha256_hex(parts.dump());
    cache.publish("bundles", key, [&](const fs::path &folder) {
        write_plainly(folder / "plan.json", plan), write_plainly(folder / "kernels.so", "\177ELF");
        return json{{"app", "test"}, {"kernels", 0}, {"parts", parts}}.dump();
    });
    cache.publish("descriptions", sha256_hex(program), [&](const fs::path &folder) {
        write_plainly(folder / "description.json", program);
        return json{{"program", program}}.dump();
    });
    return key;
}

int run(const Scratch &scratch, std::vector<std::string> words, const char *folder) {
    words.insert(words.end(), {"--cache", (scratch / folder).string()});
    return run_cache(words);
}

}  // namespace

TEST_CASE("cache: its commands are named") {
    CHECK_ERROR(run_cache({}), "a command is required, one of ls, verify, ");
    CHECK_ERROR(run_cache({"lss"}), "there is no command of cache \"lss\" (did you mean ls?)");
}

TEST_CASE("cache carry: a bundle and its program's description are in the other cache") {
    Scratch scratch;
    const Cache here(scratch / "here");
    const std::string one = publish(here, "one"), two = publish(here, "two");
    const std::string file = (scratch / "carried").string();
    CHECK(run(scratch, {"export", file, one.substr(0, 10)}, "here") == 0);
    CHECK(run(scratch, {"import", file}, "there") == 0);
    const Cache there(scratch / "there");
    const std::optional<CacheEntry> entry = there.find("bundles", one);
    REQUIRE(entry);
    CHECK(entry->about == here.find("bundles", one)->about);
    CHECK(entry->files.at("plan.json")->read() == plan);
    CHECK(there.find("descriptions", sha256_hex("one")));
    CHECK(there.list("bundles").size() == 1);
    CHECK(there.list("descriptions").size() == 1);
    CHECK(run(scratch, {"export", file}, "here") == 0);
    CHECK(run(scratch, {"import", file}, "there") == 0);  // what is there already stays
    CHECK(there.find("bundles", two));
    CHECK(there.list("bundles").size() == 2);
}

TEST_CASE("cache carry: what cannot be carried, and a file of which one entry is bad: nothing of it is taken in") {
    Scratch scratch;
    const Cache here(scratch / "here");
    const std::string file = (scratch / "carried").string();
    CHECK(contains(error_of([&] { run(scratch, {"export", file}, "here"); }), "has no whole bundle"));
    const std::string key = publish(here, "one");
    publish(here, "two");
    CHECK(contains(error_of([&] {
                       run(scratch, {"export", file, "zz"}, "here");
                   }),
                   "has no whole bundle whose key begins with"));
    CHECK(contains(error_of([&] { run(scratch, {"export", file, ""}, "here"); }), "KEY is empty"));
    CHECK(contains(error_of([&] { run(scratch, {"import", file}, "there"); }), "carried"));
    CHECK(run(scratch, {"export", file}, "here") == 0);
    std::string bytes = read_file(file);
    bytes.back() ^= 1;  // of the last entry
    write_plainly(file, bytes);
    CHECK(contains(error_of([&] { run(scratch, {"import", file}, "there"); }), " has changed since it was exported"));
    CHECK(Cache(scratch / "there").list("bundles").empty());
    CHECK(Cache(scratch / "there").list("descriptions").empty());
}

}  // namespace cryolite::test
