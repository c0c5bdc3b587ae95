// Faults of the file system at every system call of saving, resuming and measuring.

#include "runtime/files/metrics.h"
#include "tests/faults/faults.h"
#include "tests/runtime/checkpoints.h"

#include <cerrno>
#include <map>

namespace cryolite::test {

namespace {

std::string below(const Scratch &scratch) { return scratch.path.string() + "*"; }

void empty_folder(const fs::path &folder) {
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
}

/// The run has whole checkpoints only, the newest one of `oldest` or after, with its own content.
void check_whole(const fs::path &run, uint64_t oldest, uint64_t newest) {
    std::string words;
    const uint64_t step = newest_good_step(run, &words);
    CAPTURE(words);
    CHECK(words.empty());
    CHECK(step >= oldest);
    CHECK(step <= newest);
    const fs::path folder = run / fmt::format("checkpoints/step-{:06}", step);
    CHECK(SafetensorsFile(folder / "model.safetensors").read_float32("w")[99] == static_cast<float>(step));
}

}  // namespace

TEST_CASE("faults: a file that cannot be read is no damage, and no older checkpoint is taken for it") {
    Scratch run;
    for (uint64_t step : {1, 2}) write_checkpoint(run.path, step, files_of(step));
    for (int number : {EIO, EMFILE, EACCES, ESTALE}) {
        long failed = 0;
        const auto resume = [&] {
            std::string words;
            uint64_t found = 2;
            failed += !error_of([&] { found = newest_good_step(run.path, &words); }).empty();
            CAPTURE(words);
            CHECK(words.empty());
            CHECK(found == 2);
        };
        const long calls = at_every_call(
            {.path = below(run), .fault = Fault::error, .number = number}, [] {}, resume, [](long) {});
        CHECK(calls > 20);
        CHECK(failed > 15);  // all but what closes
    }
    const Faults faults({.path = "*step-000002/manifest.json", .fault = Fault::error, .at = 1, .number = ESTALE});
    CHECK_ERROR(newest_good_step(run.path), "step-000002/manifest.json: Stale file handle");
}

TEST_CASE("faults: a checkpoint that cannot be written leaves those before it") {
    Scratch run;
    const auto begin = [&] {
        empty_folder(run.path);
        write_checkpoint(run.path, 1, files_of(1));
    };
    const auto save = [&] { prune_checkpoints(run.path, write_checkpoint(run.path, 2, files_of(2)), 1); };
    for (bool lasting : {false, true}) {
        long failed = 0;
        bool threw = false;
        const long calls = at_every_call(
            {.path = below(run), .fault = Fault::error, .number = lasting ? ENOSPC : EIO, .lasting = lasting}, begin,
            [&] { failed += threw = !error_of(save).empty(); }, [&](long) { check_whole(run.path, threw ? 1 : 2, 2); });
        CHECK(calls > 40);
        CHECK(failed > 25);
    }
    begin();
    save();
    check_whole(run.path, 2, 2);
    CHECK(list_checkpoints(run.path).size() == 1);
}

TEST_CASE("faults: a checkpoint whose writer is killed leaves those before it, and the next one is written") {
    Scratch run;
    const auto begin = [&] {
        empty_folder(run.path);
        write_checkpoint(run.path, 1, files_of(1));
    };
    const auto save = [&] { prune_checkpoints(run.path, write_checkpoint(run.path, 2, files_of(2)), 1); };
    for (Fault fault : {Fault::kill, Fault::torn}) {
        const long calls = at_every_call({.path = below(run), .fault = fault}, begin, save, [&](long) {
            check_whole(run.path, 1, 2);
            remove_checkpoint_leftovers(run.path);
            save();
            check_whole(run.path, 2, 2);
            CHECK(std::distance(fs::directory_iterator(run / "checkpoints"), fs::directory_iterator()) == 1);
        });
        CHECK(calls > 40);
    }
}

TEST_CASE("faults: a checkpoint replaced by another one of its step is one or the other") {
    Scratch run;
    const auto begin = [&] {
        empty_folder(run.path);
        write_checkpoint(run.path, 2, files_of(2));
    };
    const auto again = [&] { write_checkpoint(run.path, 2, files_of(2)); };
    at_every_call({.path = below(run), .fault = Fault::kill}, begin, again, [&](long) { check_whole(run.path, 2, 2); });
    at_every_call(
        {.path = below(run), .fault = Fault::error}, begin, [&] { error_of(again); },
        [&](long) { check_whole(run.path, 2, 2); });
}

TEST_CASE("durability: each file of a checkpoint is synced once, and before its folder gets its name") {
    Scratch run;
    write_checkpoint(run.path, 1, files_of(1));
    const Faults faults({.path = below(run)});
    write_checkpoint(run.path, 2, files_of(2));
    std::map<std::string, int> syncs;
    bool published = false;
    for (const FileCall &call : faults.calls()) {
        published |= call == FileCall{"rename", run / "checkpoints/step-000002"};
        if (call.name != "fsync") continue;
        const fs::path path = call.path;
        CHECK(published == (path == run / "checkpoints"));
        const std::string name = path.filename().string();
        // Temporary files and the temporary folder have names of their own.
        ++syncs[name.starts_with(".tmp-") ? name.substr(0, name.size() - 9) : name];
    }
    CHECK(syncs == std::map<std::string, int>{{"model.safetensors", 1},
                                              {"optimizer.safetensors", 1},
                                              {"state.json", 1},
                                              {".tmp-manifest.json", 1},
                                              {".tmp-step-000002", 1},
                                              {"checkpoints", 1}});
}

TEST_CASE("faults: metrics have whole lines, whatever fails or wherever the process is killed") {
    Scratch run;
    const fs::path path = run / "metrics.jsonl";
    const auto line = [](int step) { return fmt::format("{{\"step\":{}}}\n", step); };
    const auto begin = [&] { write_plainly(path, line(1) + line(2) + "{\"st"); };
    const auto measure = [&] {
        MetricsWriter metrics(path, 1);
        for (int step : {2, 3}) metrics.write(fmt::format("{{\"step\":{}}}", step));
        metrics.sync();
    };
    // What a resume after step 1 goes on from.
    const auto check = [&](long) {
        { MetricsWriter resumed(path, 1); }
        CHECK(read_file(path) == line(1));
    };
    for (Fault fault : {Fault::kill, Fault::torn})
        CHECK(at_every_call({.path = below(run), .fault = fault}, begin, measure, check) > 10);
    CHECK(at_every_call(
              {.path = below(run), .fault = Fault::error}, begin, [&] { error_of(measure); }, check) > 10);
    measure();
    CHECK(read_file(path) == line(1) + line(2) + line(3));
}

}  // namespace cryolite::test
