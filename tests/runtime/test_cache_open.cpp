// What was checked in the cache is what is used, whoever touches the cache meanwhile.

#include "runtime/cache/cache.h"
#include "runtime/plan/library.h"
#include "tests/faults/faults.h"
#include "tests/runtime/scratch.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <zlib.h>

namespace cryolite::test {

namespace {

const std::string key = sha256_hex("a key");

std::string fill_with(const fs::path &folder, const std::string &content) {
    write_file_atomic(folder / "plan.json", content);
    return "{}";
}

CacheEntry published(const Cache &cache, const std::string &content, bool replace = false) {
    return cache.publish(
        "bundles", key, [&](const fs::path &f) { return fill_with(f, content); }, replace);
}

/// A copy of the library that has this symbol, loaded here already.
fs::path copy_of_library(const void *symbol, const fs::path &to) {
    Dl_info info{};
    REQUIRE(dladdr(symbol, &info) != 0);
    fs::copy_file(fs::canonical(info.dli_fname), to);
    return to;
}

}  // namespace

TEST_CASE("cache: every folder in it has to be this user's alone") {
    for (const char *part : {"bundles", "programs", "descriptions", "kernels", "locks"}) {
        CAPTURE(std::string(part));
        Scratch scratch;
        const fs::path folder = scratch / "cache" / part;
        const Cache before(scratch / "cache");
        make_private_dirs(folder);
        CHECK(error_of([&] { Cache(scratch / "cache"); }).empty());
        fs::permissions(folder, fs::perms(0777));
        CHECK_ERROR(Cache(scratch / "cache"), folder.string() + " is writable by others (mode 777)");
        CHECK_ERROR(Cache(scratch / "cache"), "--cache DIR");
        fs::remove(folder);
        fs::create_symlink(scratch.path, folder);
        CHECK_ERROR(Cache(scratch / "cache"), "is not a folder");
    }
    Scratch scratch;
    const Cache cache(scratch / "cache");
    published(cache, "text");
    REQUIRE(cache.find("bundles", key));
    fs::permissions(cache.folder() / "bundles", fs::perms(0777));  // while the process runs
    CHECK(contains(cache.list("bundles").at(0).damage, "bundles is writable by others"));
    CHECK(!cache.find("bundles", key));
    CHECK_ERROR(published(cache, "text"), "/bundles is writable by others (mode 777)");
}

TEST_CASE("cache: an entry that was found is read whole after it was cleared or replaced") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    CHECK(published(cache, "first").files.at("plan.json")->read() == "first");
    const std::optional<CacheEntry> first = cache.find("bundles", key);
    REQUIRE(first);
    CHECK(published(cache, "second", true).files.at("plan.json")->read() == "second");
    const std::optional<CacheEntry> second = cache.find("bundles", key);
    REQUIRE(second);
    cache.remove("bundles", key);
    CHECK(first->files.at("plan.json")->read() == "first");
    CHECK(second->files.at("plan.json")->read() == "second");
    CHECK(second->files.at("plan.json")->sha256() == sha256_hex("second"));
    CHECK(read_file(second->files.at("plan.json")->link()) == "second");
    CHECK(!cache.find("bundles", key));
    CHECK(error_of([&] { cache.remove("bundles", key); }).empty());  // another process may have been first
}

TEST_CASE("cache: an entry that cannot be read this time is an error, and is not removed") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    published(cache, "text");
    for (const char *file : {"*/manifest.json", "*/plan.json", "*/bundles"})
        for (const int number : {EIO, EMFILE, EACCES}) {
            CAPTURE(std::string(file));
            CAPTURE(number);
            {
                const Faults faults({.path = file, .fault = Fault::error, .at = 1, .number = number, .lasting = true});
                CHECK_ERROR(cache.find("bundles", key), "could not be read, and is left as it is");
                CHECK_ERROR(cache.find("bundles", key), "--cache DIR");
                CHECK(cache.list("bundles").size() <= 1);
            }
            const std::optional<CacheEntry> entry = cache.find("bundles", key);
            REQUIRE(entry);
            CHECK(entry->files.at("plan.json")->read() == "text");
        }
}

TEST_CASE("cache: beside a process that clears and publishes, finding is a hit or a miss, never an error") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const std::string content(100'000, 'x');
    const pid_t pid = ::fork();
    if (pid == 0) {
        for (int i = 0; i < 300; ++i) published(cache, content), cache.remove("bundles", key);
        ::_exit(0);
    }
    int hits = 0, status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
        const std::optional<CacheEntry> entry = cache.find("bundles", key);
        for (const CacheEntry &e : cache.list("bundles")) CHECK(e.key == key);
        if (!entry) continue;
        ++hits;
        CHECK(entry->files.at("plan.json")->read() == content);
    }
    CHECK(status == 0);
    MESSAGE(hits, " hits");
}

TEST_CASE("cache: what is published is nobody else's to write, whatever the umask") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    CHECK(in_child([&] {
              ::umask(0);
              published(cache, "text");
              if (!cache.find("bundles", key)) fail("not found");
          }) == 0);
}

TEST_CASE("cache: publishing that fails or is killed at any call leaves a hit or a miss") {
    Scratch scratch;
    const fs::path folder = scratch / "cache";
    const auto check = [&](long n) {
        CAPTURE(n);
        const Cache cache(folder);
        if (const std::optional<CacheEntry> entry = cache.find("bundles", key))
            CHECK(entry->files.at("plan.json")->read() == "text");
        CHECK(published(cache, "text").files.at("plan.json")->read() == "text");
        CHECK(cache.find("bundles", key));
    };
    const auto publish = [&] { error_of([&] { published(Cache(folder), "text"); }); };
    const auto nothing = [&] { fs::remove_all(folder); };
    for (Fault fault : {Fault::error, Fault::kill, Fault::torn}) {
        const long calls =
            at_every_call({.path = folder.string() + "*", .fault = fault, .number = ENOSPC}, nothing, publish, check);
        MESSAGE(calls, " calls");
        CHECK(calls > 15);
    }
}

TEST_CASE("library: what is loaded is the file that is open, also where its descriptor's number comes again") {
    Scratch scratch;
    const fs::path zlib = copy_of_library(reinterpret_cast<void *>(&zlibVersion), scratch / "a.so");
    const fs::path crypto = copy_of_library(reinterpret_cast<void *>(&OpenSSL_version_num), scratch / "b.so");
    int number = -1;
    {
        auto file = OpenFile::at(zlib);
        number = file->descriptor();
        fs::rename(crypto, scratch / "c.so");
        fs::rename(zlib, scratch / "d.so");
        fs::rename(scratch / "c.so", zlib);  // another file has the name now
        const Library first(file, "the kernels");
        CHECK(first.symbol("zlibVersion"));
        const Library again(OpenFile::at(scratch / "d.so"), "the kernels");
        CHECK(again.symbol("zlibVersion") == first.symbol("zlibVersion"));
    }
    const auto file = OpenFile::at(zlib);
    CHECK(file->descriptor() == number);
    const Library other(file, "the kernels");
    CHECK(other.symbol("OpenSSL_version_num"));
    CHECK(!other.symbol("zlibVersion"));
    const auto text = OpenFile::at(write_plainly(scratch / "text", "no library"));
    CHECK_ERROR(Library(text, "the kernels"), "cannot load the kernels " + (scratch / "text").string());
}

}  // namespace cryolite::test
