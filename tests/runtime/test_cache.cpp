#include "runtime/cache/cache.h"
#include "tests/runtime/scratch.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryolite::test {

namespace {

const std::string key = sha256_hex("a key"), other_key = sha256_hex("another");

std::string fill(const fs::path &folder) {
    write_plainly(folder / "plan.json", "{\"a\": 1}");
    write_plainly(folder / "kernels.so", std::string(5000, 'k'));
    return "{\"app\": \"test\"}";
}

CacheEntry published(const Cache &cache) { return cache.publish("bundles", key, fill); }

/// Damages a whole entry; it must be a miss, with a word that contains `why`, and be made again.
template <typename Damage> void check_healed(const char *why, Damage &&damage) {
    CAPTURE(why);
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const CacheEntry entry = published(cache);
    REQUIRE(cache.find("bundles", key));
    damage(entry.folder);
    const std::vector<CacheEntry> listed = cache.list("bundles");
    REQUIRE(listed.size() == 1);
    CAPTURE(listed[0].damage);
    CHECK(contains(listed[0].damage, why));
    CHECK(!cache.find("bundles", key));
    CHECK(published(cache).damage.empty());
    CHECK(cache.find("bundles", key)->about == entry.about);
    CHECK(read_file(entry.folder / "kernels.so") == std::string(5000, 'k'));
}

}  // namespace

TEST_CASE("cache: what is published is found, with what it is about") {
    Scratch scratch;
    const Cache cache(scratch / "deep/cache");
    CHECK(!cache.find("bundles", key));
    CHECK(published(cache).bytes == 5008);
    const std::optional<CacheEntry> entry = cache.find("bundles", key);
    REQUIRE(entry);
    CHECK(entry->about == "{\"app\": \"test\"}");
    CHECK(!cache.find("bundles", other_key));
    CHECK(!cache.find("programs", key));
    struct stat status {};
    for (const fs::path &folder : {cache.folder(), entry->folder}) {
        REQUIRE(stat(folder.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0700);
    }
    cache.remove("bundles", key);
    CHECK(!cache.find("bundles", key));
}

TEST_CASE("cache: every fault of an entry is a miss, and healed") {
    check_healed("kernels.so has 100 bytes, not 5000",
                 [](const fs::path &f) { fs::resize_file(f / "kernels.so", 100); });
    check_healed("kernels.so has 0 bytes", [](const fs::path &f) { fs::resize_file(f / "kernels.so", 0); });
    check_healed("kernels.so has changed",
                 [](const fs::path &f) { write_plainly(f / "kernels.so", std::string(4999, 'k') + "x"); });
    check_healed("plan.json is missing", [](const fs::path &f) { fs::remove(f / "plan.json"); });
    check_healed("does not belong to it: extra", [](const fs::path &f) { write_plainly(f / "extra", ""); });
    check_healed("manifest.json is missing", [](const fs::path &f) { fs::remove(f / "manifest.json"); });
    check_healed("manifest.json cannot be read", [](const fs::path &f) { fs::resize_file(f / "manifest.json", 40); });
    check_healed("manifest.json cannot be read", [](const fs::path &f) { write_plainly(f / "manifest.json", "[]"); });
    check_healed("manifest.json has changed", [](const fs::path &f) {
        std::string text = read_file(f / "manifest.json");
        text.replace(text.find("5000"), 4, "5001");
        write_plainly(f / "manifest.json", text);
    });
    check_healed("kernels.so is writable by others",
                 [](const fs::path &f) { fs::permissions(f / "kernels.so", fs::perms(0666)); });
    check_healed("writable by others", [](const fs::path &f) { fs::permissions(f, fs::perms(0777)); });
    check_healed("kernels.so is not a regular file", [](const fs::path &f) {
        fs::rename(f / "kernels.so", f.parent_path().parent_path() / "elsewhere.so");
        fs::create_symlink(f.parent_path().parent_path() / "elsewhere.so", f / "kernels.so");
    });
    check_healed("not a folder", [](const fs::path &f) {
        fs::remove_all(f);
        write_plainly(f, "a file in the way");
    });
    if (geteuid() == 0)
        check_healed("owned by user 65534",
                     [](const fs::path &f) { REQUIRE(chown((f / "kernels.so").c_str(), 65534, 65534) == 0); });
}

TEST_CASE("cache: an entry under another name is not trusted") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    published(cache);
    fs::rename(cache.folder() / "bundles" / key, cache.folder() / "bundles" / other_key);
    CHECK(!cache.find("bundles", other_key));
}

TEST_CASE("cache: of two that publish the same, both have it") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 50; ++i) {
            const CacheEntry e = cache.publish("bundles", sha256_hex(std::to_string(i)), fill);
            if (!e.damage.empty()) _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < 50; ++i) CHECK(cache.publish("bundles", sha256_hex(std::to_string(i)), fill).damage.empty());
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    CHECK(cache.list("bundles").size() == 50);
    for (const CacheEntry &entry : cache.list("bundles")) CHECK(entry.damage.empty());
    CHECK(std::distance(fs::directory_iterator(cache.folder() / "bundles"), fs::directory_iterator()) == 50);
}

TEST_CASE("cache: a second process waits for the first, unless that was killed") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const CacheLock lock = cache.lock("bundles", key, "nobody");
        (void)!write(ready[1], "x", 1);
        usleep(300000);
        published(cache);
        kill(getpid(), SIGKILL);
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    const CacheLock lock = cache.lock("bundles", key, "the test's child");
    CHECK(cache.find("bundles", key));
    waitpid(pid, nullptr, 0);
    close(ready[0]), close(ready[1]);
}

TEST_CASE("cache: a patient lock waits with a word, alone or with others, until it is stopped") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    int waited = 0, looks = 0;
    const auto lock = [&](bool shared, int most) {
        looks = 0;
        return cache.lock_patiently(
            "measuring", shared, [&] { waited++; }, [&] { return looks++ == most; });
    };
    {
        const CacheLock first = lock(true, 0), second = lock(true, 0);
        CHECK(looks == 0);  // both had it at once
        const CacheLock alone = lock(false, 5);
        CHECK(looks == 6);
        CHECK(waited == 1);
    }
    const CacheLock alone = lock(false, 0);
    CHECK(looks == 0);
    const CacheLock other = lock(true, 3);
    CHECK(looks == 4);
    CHECK(waited == 2);
}

TEST_CASE("cache: replacing takes the place of a whole entry") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    published(cache);
    auto new_fill = [](const fs::path &folder) {
        write_plainly(folder / "plan.json", "new");
        return std::string("{}");
    };
    CHECK(cache.publish("bundles", key, new_fill).bytes == 5008);
    CHECK(cache.publish("bundles", key, new_fill, true).bytes == 3);
    CHECK(cache.find("bundles", key)->about == "{}");
}

TEST_CASE("cache: a failure while it is made leaves nothing") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    CHECK_ERROR(cache.publish("bundles", key,
                              [](const fs::path &f) -> std::string {
                                  write_plainly(f / "half", "x");
                                  fail("the compiler says no");
                              }),
                "the compiler says no");
    CHECK(fs::is_empty(cache.folder() / "bundles"));
}

TEST_CASE("cache: a full disk is an error that names --cache") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    CHECK(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const struct rlimit little = {100, 100};
              setrlimit(RLIMIT_FSIZE, &little);
              auto small = [](const fs::path &f) {
                  write_plainly(f / "plan.json", "{}");
                  return std::string(200, ' ');
              };
              const std::string message = error_of([&] { cache.publish("bundles", key, small); });
              if (!contains(message, "--cache DIR") || !contains(message, "too large"))
                  fail("wrong message: {}", message);
          }) == 0);
    CHECK(!cache.find("bundles", key));
    CHECK(fs::is_empty(cache.folder() / "bundles"));
}

TEST_CASE("cache: a folder that cannot be written or trusted is refused by name") {
    Scratch scratch;
    fs::permissions(scratch.path, fs::perms(0755));
    fs::create_directory(scratch / "open");
    fs::permissions(scratch / "open", fs::perms(0777));
    CHECK_ERROR(Cache(scratch / "open"), "writable by others (mode 777)");
    CHECK_ERROR(Cache(scratch / "open"), "--cache DIR");
    write_plainly(scratch / "file", "");
    CHECK_ERROR(Cache(scratch / "file/cache"), "--cache DIR");
    if (geteuid() != 0) return;
    CHECK(in_child([&] {
              REQUIRE(seteuid(65534) == 0);
              const std::string message = error_of([&] { Cache cache(scratch / "none"); });
              if (!contains(message, "Permission denied") || !contains(message, "--cache DIR")) fail("{}", message);
              const std::string foreign = error_of([&] { Cache cache(scratch.path); });
              if (!contains(foreign, "owned by user 0, not 65534")) fail("{}", foreign);
          }) == 0);
}

TEST_CASE("cache: a whole entry is found in a folder that is read-only, a new one is an error") {
    if (geteuid() != 0) return;  // needs a second user
    Scratch scratch;
    fs::permissions(scratch.path, fs::perms(0755));
    const fs::path folder = scratch / "cache";
    REQUIRE(fs::create_directory(folder));
    REQUIRE(chown(folder.c_str(), 65534, 65534) == 0);
    CHECK(in_child([&] {
              if (seteuid(65534) != 0) fail("seteuid");
              const Cache cache(folder);
              published(cache);
              for (const char *name : {"bundles", ""}) fs::permissions(folder / name, fs::perms(0500));
              if (!cache.find("bundles", key)) fail("not found");
              const std::string message = error_of([&] { cache.publish("bundles", other_key, fill); });
              if (!contains(message, "Permission denied") || !contains(message, "--cache DIR")) fail("{}", message);
              fs::resize_file(folder / "bundles" / key / "kernels.so", 1);
              if (cache.find("bundles", key)) fail("damaged, but found");
              for (const char *name : {"", "bundles"}) fs::permissions(folder / name, fs::perms(0700));
          }) == 0);
}

TEST_CASE("cache: kernels are checked by their last line") {
    Scratch scratch;
    const std::string name(32, 'a'), object(100, 'o');
    const std::string whole = object + "\ncryolite kernel " + name + " " + sha256_hex(object).substr(0, 32) + "\n";
    const fs::path path = scratch / (name + ".o");
    CHECK(kernel_damage(write_plainly(path, whole)) == "");
    CHECK(kernel_damage(write_plainly(scratch / "b.o", whole)) != "");
    CHECK(kernel_damage(write_plainly(path, whole.substr(0, whole.size() - 1))) != "");
    CHECK(kernel_damage(write_plainly(path, "x" + whole)) == "its content has changed");
    CHECK(kernel_damage(write_plainly(path, "")) == "truncated");
    CHECK(contains(kernel_damage(scratch / "none.o"), "No such file"));
}

TEST_CASE("cache: leftovers of killed processes go after a day") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    published(cache);
    const fs::path old_one = cache.folder() / "bundles/.tmp-old-1", new_one = cache.folder() / "bundles/.tmp-new-1";
    for (const fs::path &folder : {old_one, new_one}) fs::create_directory(folder);
    fs::last_write_time(old_one, fs::file_time_type::clock::now() - std::chrono::hours(30));
    CHECK(cache.remove_leftovers() == 1);
    CHECK(!fs::exists(old_one));
    CHECK(fs::exists(new_one));
    CHECK(cache.find("bundles", key));
}

}  // namespace cryolite::test
