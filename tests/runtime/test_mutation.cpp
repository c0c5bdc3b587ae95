// Damage of every file of the cache and of a checkpoint: a miss or a named error, never what was not written.

#include "runtime/cache/cache.h"
#include "runtime/cache/tuning.h"
#include "runtime/files/checkpoint.h"
#include "tests/runtime/mutation.h"

namespace cryolite::test {

namespace {

const std::string key = sha256_hex("a key");

}  // namespace

TEST_CASE("mutation: no damaged file of a cache's entry is used") {
    Scratch scratch;
    const Cache cache(scratch / "cache");
    const std::string plan = "{\"format\": 2}", kernels(3000, 'k');
    const auto fill = [&](const fs::path &folder) {
        write_plainly(folder / "plan.json", plan);
        write_plainly(folder / "kernels.so", kernels);
        return std::string("{\"app\":\"test\",\"parts\":{\"width\":8}}");
    };
    const fs::path folder = cache.publish("bundles", key, fill).folder;
    for (const char *name : {"manifest.json", "plan.json", "kernels.so"}) {
        const std::string whole = read_file(folder / name);
        for (int seed = 0; seed < mutations(100); ++seed) {
            CAPTURE(std::string(name));
            CAPTURE(seed);
            write_plainly(folder / name, mutated(whole, uint32_t(seed)));
            CHECK(!cache.list("bundles").at(0).damage.empty());
            if (seed % 10 == 0) {
                CHECK(!cache.find("bundles", key));
                CHECK(!fs::exists(folder));
                cache.publish("bundles", key, fill);
            }
        }
        write_plainly(folder / name, name == std::string("manifest.json")
                                         ? read_file(cache.publish("bundles", key, fill, true).folder / name)
                                         : whole);
        CHECK(cache.find("bundles", key));
    }
}

TEST_CASE("mutation: no damaged kernel of the store passes") {
    Scratch scratch;
    const std::string name(32, 'a'), object(2000, 'o');
    const std::string whole = object + "\ncryolite kernel " + name + " " + sha256_hex(object).substr(0, 32) + "\n";
    const fs::path path = scratch / (name + ".o");
    CHECK(kernel_damage(write_plainly(path, whole)).empty());
    for (int seed = 0; seed < mutations(200); ++seed) {
        CAPTURE(seed);
        CHECK(!kernel_damage(write_plainly(path, mutated(whole, uint32_t(seed)))).empty());
    }
}

TEST_CASE("mutation: damaged measured times are begun again, or those that are read were written") {
    Scratch scratch;
    const TuningKey measured{"cpu", "machine", 2, "a product", "halide", "code"};
    const auto write = [&] {
        Tuning::remove(scratch.path);
        Tuning(scratch.path).remember(measured, 0.125);
        return read_file(Tuning::file(scratch.path));
    };
    const std::string whole = write();
    for (int seed = 0; seed < mutations(30); ++seed) {
        CAPTURE(seed);
        write_plainly(Tuning::file(scratch.path), mutated(whole, uint32_t(seed)));
        const std::optional<double> seconds = Tuning(scratch.path).seconds(measured);
        CHECK((!seconds || *seconds > 0));  // a number of the clock: SQLite keeps no digest of it
        Tuning(scratch.path).remember(measured, 0.5);
        write();
    }
}

TEST_CASE("mutation: a checkpoint of which any file is damaged is skipped, and why is said") {
    Scratch scratch;
    const auto file = [](const std::string &content) {
        return [content](const fs::path &path) { return write_plainly(path, content), std::string(); };
    };
    const auto write = [&](uint64_t step) {
        return write_checkpoint(
            scratch.path, step,
            {{"model.safetensors", file(std::string(1000, char(step)))}, {"state.json", file("{}")}});
    };
    write(1);
    const fs::path folder = write(2).path;
    for (const char *name : {"manifest.json", "model.safetensors", "state.json"}) {
        const std::string whole = read_file(folder / name);
        for (int seed = 0; seed < mutations(60); ++seed) {
            CAPTURE(std::string(name));
            CAPTURE(seed);
            const std::string damaged = mutated(whole, uint32_t(seed));
            write_plainly(folder / name, damaged);
            std::string why;
            const auto found =
                newest_good_checkpoint(scratch.path, [&](const Checkpoint &, const std::string &what) { why = what; });
            REQUIRE(found);
            // A manifest has no digest of itself: one whose text means the same, as with other spaces, is as good.
            if (found->step == 2)
                CHECK(name == std::string("manifest.json"));
            else
                CHECK(!why.empty());
        }
        write_plainly(folder / name, whole);
    }
}

}  // namespace cryolite::test
