// The records of measured times: kept, found by all of their key, and begun again where they are damaged.

#include "runtime/cache/tuning.h"
#include "tests/runtime/scratch.h"

#include <sys/stat.h>

#include <vector>

namespace cryolite::test {

namespace {
const TuningKey key{"cpu", "a machine", 2, "a product", "halide", "cryolite_1"};
}

TEST_CASE("tuning: a time is found by all of its key") {
    Scratch folder;
    {
        Tuning t(folder.path);
        CHECK(!t.seconds(key));
        t.remember(key, 0.25);
        CHECK(t.seconds(key) == 0.25);
        t.remember(key, 0.125);
        CHECK(t.count() == 1);
    }
    Tuning again(folder.path);
    CHECK(again.seconds(key) == 0.125);
    std::vector<TuningKey> others(6, key);
    others[0].target = "opencl", others[1].machine = "another", others[2].threads = 3;
    others[3].operation = "another", others[4].dialect = "onednn", others[5].implementation = "cryolite_2";
    for (const TuningKey &k : others) CHECK(!again.seconds(k));
    struct stat status {};
    REQUIRE(stat(Tuning::file(folder.path).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("tuning: a damaged file is a miss, and made again") {
    auto spoil = [](auto &&how) {
        Scratch folder;
        {
            Tuning t(folder.path);
            for (int i = 0; i < 200; i++) {
                TuningKey k = key;
                k.operation = fmt::format("product {}", i);
                t.remember(k, 1 + i);
            }
            t.remember(key, 0.25);
        }
        REQUIRE(Tuning::damage(folder.path) == "");
        const fs::path file = Tuning::file(folder.path);
        how(file);
        CHECK(Tuning::damage(folder.path) != "");
        {
            Tuning t(folder.path);
            CHECK(t.count() == 0);
            CHECK(!t.seconds(key));
            t.remember(key, 0.5);
        }
        CHECK(Tuning::damage(folder.path) == "");
        CHECK(Tuning(folder.path).seconds(key) == 0.5);
    };
    spoil([](const fs::path &f) {
        write_plainly(f, "no database at all, of more than a hundred bytes: " + std::string(200, 'x'));
    });
    spoil([](const fs::path &f) { fs::resize_file(f, fs::file_size(f) / 2); });
    spoil([](const fs::path &f) {
        std::string bytes = read_file(f);
        for (size_t i = 4096 + 100; i < bytes.size(); i++) bytes[i] = char(i * 7);
        write_plainly(f, bytes);
    });
    spoil([](const fs::path &f) {  // another version's table
        std::string bytes = read_file(f);
        bytes[63] = 9;  // user_version, of the header
        write_plainly(f, bytes);
    });
    spoil([](const fs::path &f) { REQUIRE(chmod(f.c_str(), 0666) == 0); });
    spoil([](const fs::path &f) { fs::remove(f), fs::create_symlink("/etc/hostname", f); });
}

TEST_CASE("tuning: a folder that cannot be written is used without records") {
    Scratch folder;
    Tuning t(folder / "missing");
    t.remember(key, 1);
    CHECK(!t.seconds(key));
    CHECK(t.count() == 0);
}

}  // namespace cryolite::test
