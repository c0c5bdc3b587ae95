#include "tests/runtime/checkpoints.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>

namespace cryolite::test {

namespace {

std::vector<uint64_t> steps_in(const fs::path &run) {
    std::vector<uint64_t> steps;
    for (const Checkpoint &c : list_checkpoints(run)) steps.push_back(c.step);
    return steps;
}

size_t entries_in(const fs::path &folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("checkpoint: written whole, listed newest first, verified") {
    Scratch run;
    CHECK(list_checkpoints(run.path).empty());
    CHECK(newest_good_step(run.path) == 0);
    for (uint64_t step : {100, 1234567, 200}) CHECK(write_checkpoint(run.path, step, files_of(step)).step == step);
    CHECK(steps_in(run.path) == std::vector<uint64_t>{1234567, 200, 100});
    const fs::path folder = run / "checkpoints/step-000200";
    CHECK(verify_checkpoint(folder).empty());
    CHECK(read_file(folder / "state.json") == "{\"step\":200}");
    CHECK(SafetensorsFile(folder / "model.safetensors").read_float32("w")[99] == 200);
    CHECK(entries_in(folder) == 4);
    fs::create_directories(run / "checkpoints/step-abc");
    fs::create_directories(run / "checkpoints/notes");
    CHECK(steps_in(run.path).size() == 3);
}

TEST_CASE("checkpoint: each kind of damage is noticed, and the one before is taken") {
    const auto change = [](const fs::path &path) {
        std::string bytes = read_file(path);
        bytes[bytes.size() - 1] ^= 1;
        write_plainly(path, bytes);
    };
    const auto cut = [](const fs::path &path) { fs::resize_file(path, fs::file_size(path) - 1); };
    const auto remove = [](const fs::path &path) { fs::remove(path); };
    const struct {
        const char *name;
        std::function<void(const fs::path &)> damage;
        const char *why;
    } cases[] = {
        {"model.safetensors", change, "model.safetensors has changed since it was written"},
        {"model.safetensors", cut, "model.safetensors has "},
        {"model.safetensors", remove, "model.safetensors: No such file"},
        {"optimizer.safetensors", change, "optimizer.safetensors has changed"},
        {"optimizer.safetensors", remove, "optimizer.safetensors: No such file"},
        {"state.json", change, "state.json has changed"},
        {"state.json", cut, "state.json has 11 bytes, 12 were written"},
        {"state.json", remove, "state.json: No such file"},
        {"manifest.json", remove, "manifest.json: No such file"},
        {"manifest.json", [](const fs::path &p) { write_plainly(p, ""); }, "manifest.json is damaged"},
        {"manifest.json", [](const fs::path &p) { write_plainly(p, "[1]"); }, "manifest.json is damaged"},
        {"manifest.json", [](const fs::path &p) { fs::resize_file(p, 50); }, "manifest.json is damaged"},
        {"manifest.json", [](const fs::path &p) { write_plainly(p, R"({"format":"x"})"); }, "not of the format"},
        {"manifest.json",
         [](const fs::path &p) { write_plainly(p, R"({"format":"cryolite checkpoint 1","step":200,"files":{}})"); },
         "names no files"},
        {"manifest.json",
         [](const fs::path &p) { write_plainly(p, R"({"format":"cryolite checkpoint 1","step":100,"files":{}})"); },
         "is of step 100"},
        {"manifest.json",
         [](const fs::path &p) {
             write_plainly(p, R"({"format":"cryolite checkpoint 1","step":200,)"
                              R"("files":{"../x":{"size":1,"sha256":""}}})");
         },
         "names the file \"../x\""},
        {"manifest.json",
         [](const fs::path &p) {
             write_plainly(p, R"({"format":"cryolite checkpoint 1","step":200,)"
                              R"("files":{"state.json":{"size":-1,"sha256":""}}})");
         },
         "state.json has 12 bytes"},
    };
    for (const auto &c : cases) {
        CAPTURE(std::string(c.why));
        Scratch run;
        for (uint64_t step : {100, 200}) write_checkpoint(run.path, step, files_of(step));
        CHECK(newest_good_step(run.path) == 200);
        c.damage(run / "checkpoints/step-000200" / c.name);
        std::string words;
        CHECK(newest_good_step(run.path, &words) == 100);
        CAPTURE(words);
        CHECK(words.starts_with("step-000200: "));
        CHECK(contains(words, c.why));
        write_checkpoint(run.path, 200, files_of(200));  // healed when its step comes again
        CHECK(newest_good_step(run.path) == 200);
        CHECK(entries_in(run / "checkpoints") == 2);
    }
}

TEST_CASE("checkpoint: a writer that fails leaves no trace and the older ones") {
    Scratch run;
    write_checkpoint(run.path, 1, files_of(1));
    auto files = files_of(2);
    files[2].write = [](const fs::path &) -> std::string { fail("the disk is full"); };
    CHECK_ERROR(write_checkpoint(run.path, 2, files), "the disk is full");
    files[2].write = [](const fs::path &) { return std::string(); };
    CHECK_ERROR(write_checkpoint(run.path, 2, files), "state.json: No such file");
    files[2].name = "model.safetensors";
    CHECK_ERROR(write_checkpoint(run.path, 2, files), "\"model.safetensors\"");
    files[2].name = "a/b";
    CHECK_ERROR(write_checkpoint(run.path, 2, files), "\"a/b\"");
    CHECK(entries_in(run / "checkpoints") == 1);
    CHECK(newest_good_step(run.path) == 1);
}

TEST_CASE("checkpoint: old ones go, never the latest") {
    Scratch run;
    Checkpoint latest;
    for (uint64_t step = 1; step <= 5; ++step) {
        latest = write_checkpoint(run.path, step, files_of(step));
        prune_checkpoints(run.path, latest, 3);
    }
    CHECK(steps_in(run.path) == std::vector<uint64_t>{5, 4, 3});
    prune_checkpoints(run.path, latest, 0);
    CHECK(steps_in(run.path) == std::vector<uint64_t>{5});
    // Resumed before a damaged step 9: 9 must not push out what was written since.
    write_checkpoint(run.path, 9, files_of(9));
    fs::remove(run / "checkpoints/step-000009/manifest.json");
    latest = write_checkpoint(run.path, 6, files_of(6));
    prune_checkpoints(run.path, latest, 1);
    CHECK(steps_in(run.path) == std::vector<uint64_t>{9, 6});
    CHECK(newest_good_step(run.path) == 6);
    CHECK(entries_in(run / "checkpoints") == 2);
}

TEST_CASE("checkpoint: damaged ones push out none that is good") {
    Scratch run;
    for (uint64_t step = 1; step <= 3; ++step) write_checkpoint(run.path, step, files_of(step));
    fs::resize_file(run / "checkpoints/step-000003/model.safetensors", 1);  // its size tells
    Checkpoint latest = write_checkpoint(run.path, 4, files_of(4));
    prune_checkpoints(run.path, latest, 2, {2});  // of 2 it is known, sizes or not
    CHECK(steps_in(run.path) == std::vector<uint64_t>{4, 3, 2, 1});
    latest = write_checkpoint(run.path, 5, files_of(5));
    prune_checkpoints(run.path, latest, 2);
    CHECK(steps_in(run.path) == std::vector<uint64_t>{5, 4});
}

TEST_CASE("checkpoint: a writer killed at any moment leaves good ones only") {
    Scratch run;
    write_checkpoint(run.path, 1, files_of(1, 50'000));
    for (int round = 0; round < 6; ++round) {
        const uint64_t before = newest_good_step(run.path);
        const pid_t child = ::fork();
        if (child == 0) {
            for (uint64_t step = before + 1;; ++step) {
                const Checkpoint latest = write_checkpoint(run.path, step, files_of(step, 50'000));
                prune_checkpoints(run.path, latest, 2);
            }
        }
        ::usleep(6000 + 9000 * round);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        std::string words;
        const uint64_t after = newest_good_step(run.path, &words);
        CHECK(after >= before);
        CHECK(words.empty());
        remove_checkpoint_leftovers(run.path);
        CHECK(entries_in(run / "checkpoints") == list_checkpoints(run.path).size());
    }
}

}  // namespace cryolite::test
