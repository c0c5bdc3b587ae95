// A run's folder: made, held, gone on with, saved to; with faults at every system call of each.

#include "apps/cryolite/run/run_check.h"
#include "apps/cryolite/run/run_folder.h"
#include "tests/faults/faults.h"
#include "tests/runtime/checkpoints.h"

#include <algorithm>
#include <map>
#include <optional>

namespace cryolite::test {

namespace {

/// A run in a folder of its own, without a model: what the command does around its steps.
struct Run {
    Scratch scratch;
    fs::path path = scratch / "run";
    TrainSettings settings;
    RunData data;
    Program program;

    Run() {
        settings.app = "gpt", settings.out = path, settings.rate.steps = 10;
        settings.rate.high = settings.rate.low = 0.5;
        data.digest = "of the data";
        program.id = "of the program", program.description.name = "gpt";
    }
    std::string everything() const { return scratch.path.string() + "*"; }
    std::string config() const { return path / "config.toml"; }
    fs::path checkpoint(int step) const { return path / fmt::format("checkpoints/step-{:06}", step); }

    RunState state(uint64_t step) const { return {step, step, 0, step, false, &settings, &data, &program}; }

    /// Steps up to `last`, a checkpoint after each; from where the run has come to, with `resume`.
    void train(uint64_t last, bool resume = false) {
        settings.resume = resume;
        RunFolder folder(settings);
        folder.hold(settings);
        std::optional<ResumePoint> point;
        if (resume) point = folder.resume_point([](const std::string &) {});
        folder.begin(settings, data, point);
        for (uint64_t step = point ? point->checkpoint.step + 1 : 1; step <= last; ++step) {
            folder.record(StepEvent{step, 1.0 / double(step), 1, 1, 0.5});
            folder.settle(folder.write(state(step), tensors_of(step)), 2);
        }
    }
    /// What --resume finds, before anything is changed.
    std::optional<ResumePoint> look() {
        settings.resume = true;
        RunFolder folder(settings);
        folder.hold(settings);
        return folder.resume_point([](const std::string &) {});
    }
    std::vector<std::string> mistakes() const { return check_run(path).mistakes; }
    void remove() { fs::remove_all(path); }

    /// Every file below the scratch folder, with its content and the time of its last change.
    std::map<std::string, std::string> snapshot() const {
        std::map<std::string, std::string> files;
        for (const fs::directory_entry &e : fs::recursive_directory_iterator(scratch.path))
            files[e.path()] = fmt::format("{} {}", e.last_write_time().time_since_epoch().count(),
                                          e.is_regular_file() ? read_file(e.path()) : "");
        return files;
    }
};

void damage(const fs::path &file) {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    write_plainly(file, bytes);
}

}  // namespace

TEST_CASE("run folder: --resume begins at step 0 where nothing is, and in a run's folder without checkpoints") {
    Run run;
    CHECK_FALSE(run.look());
    CHECK_FALSE(fs::exists(run.path));  // of a run that did not begin nothing stays
    fs::create_directory(run.path);
    CHECK_FALSE(run.look());
    CHECK(fs::is_empty(run.path));
    write_plainly(run.path / ".tmp-config.toml-12345678", "# Wh");  // killed in its very first write
    CHECK_FALSE(run.look());
    run.remove();
    run.train(0);
    CHECK_FALSE(run.look());
    CHECK(fs::exists(run.config()));
    run.train(3, true);
    CHECK(run.look()->checkpoint.step == 3);
    fs::create_directories(run.scratch / "link");
    fs::rename(run.path / "checkpoints", run.scratch / "link/away");
    fs::create_symlink(run.scratch / "not mounted", run.path / "checkpoints");
    CHECK_ERROR(run.look(), "cannot list checkpoints in");
}

TEST_CASE("run folder: --resume refuses what is not a run's, and changes nothing there") {
    Run run;
    const auto refused = [&](const char *words) {
        const auto before = run.snapshot();
        CHECK_ERROR(run.look(), words);
        CHECK(run.snapshot() == before);
    };
    fs::create_directory(run.path);
    write_plainly(run.path / "model.safetensors", "somebody's");
    refused("run is not the folder of a run: it has model.safetensors, but no config.toml that a run wrote");
    write_plainly(run.path / "config.toml", "[package]\n");  // of another program
    refused("is not the folder of a run: it has ");
    run.remove();
    fs::create_directories(run.checkpoint(100));
    write_plainly(run.checkpoint(100) / "weights.bin", "of another program");
    refused("step-000100: cannot read");
}

TEST_CASE("run folder: checkpoints of which none can be used are named, and nothing is changed") {
    Run run;
    run.train(3);
    damage(run.checkpoint(2) / "optimizer.safetensors");
    damage(run.checkpoint(3) / "model.safetensors");
    write_plainly(run.path / "checkpoints/.tmp-step-000004-12345678", "half a checkpoint");
    const auto before = run.snapshot();
    CHECK_ERROR(run.look(), "no checkpoint in " + run.path.string() +
                                " can be used, and nothing there was changed:\n"
                                "  step-000003: model.safetensors has changed since it was written\n"
                                "  step-000002: optimizer.safetensors has changed since it was written\n");
    CHECK(run.snapshot() == before);
    run.settings.resume = false;
    CHECK_ERROR(run.train(3), "is not empty: go on with the run in it (--resume)");
    CHECK(run.snapshot() == before);
}

TEST_CASE("run folder: an error at any call of looking for a checkpoint is one, and changes nothing") {
    Run run;
    run.train(3);
    const auto before = run.snapshot();
    for (int number : {EIO, ESTALE}) {
        const long calls = at_every_call(
            {.path = run.everything(), .fault = Fault::error, .number = number}, [] {},
            [&] {
                std::optional<ResumePoint> point;
                std::string error;
                try {
                    point = run.look();
                } catch (const std::exception &e) {
                    error = e.what();
                }
                CAPTURE(error);
                CHECK((!error.empty() || (point && point->checkpoint.step == 3)));
            },
            [](long) {});
        CHECK(calls > 40);
    }
    CHECK(run.snapshot() == before);
}

TEST_CASE("run folder: it says whose it is from its first moment on, wherever its process is killed") {
    Run run;
    const auto make = [&] { run.train(0); };
    const auto check = [&](long) {
        if (fs::exists(run.path)) CHECK(read_file(run.config()).starts_with(config_heading));
        run.train(2, true);
        CHECK(run.mistakes().empty());
    };
    const auto nothing = [&] { run.remove(); };
    CHECK(at_every_call({.path = run.everything(), .fault = Fault::kill}, nothing, make, check) > 20);
    // In a folder that was there, its first file.
    const auto empty = [&] { run.remove(), fs::create_directory(run.path); };
    const auto first = [&](long) {
        for (const fs::directory_entry &e : fs::directory_iterator(run.path))
            CHECK((e.path() == run.config() || fs::exists(run.config()) ||
                   e.path().filename().string().starts_with(".tmp-config.toml-")));
        run.train(2, true);
        CHECK(run.mistakes().empty());
    };
    CHECK(at_every_call({.path = run.everything(), .fault = Fault::kill}, empty, make, first) > 20);
}

TEST_CASE("run folder: killed at any call of a save, a resume makes it whole") {
    Run run;
    const auto begin = [&] { run.remove(), run.train(2); };
    const auto check = [&](long) {
        const std::optional<ResumePoint> point = run.look();
        REQUIRE(point);
        CHECK(point->checkpoint.step >= 2);
        run.train(point->checkpoint.step, true);  // it "has its steps already"
        CHECK(run.mistakes().empty());
        CHECK(verify_copy(run.path / "model.safetensors", point->checkpoint).empty());
        run.train(4, true);
        CHECK(run.mistakes().empty());
    };
    for (Fault fault : {Fault::kill, Fault::torn})
        CHECK(at_every_call(
                  {.path = run.everything(), .fault = fault}, begin, [&] { run.train(3, true); }, check) > 60);
}

TEST_CASE("run folder: an error at any call of a save leaves the checkpoints before it") {
    Run run;
    for (bool lasting : {false, true})
        at_every_call(
            {.path = run.everything(), .fault = Fault::error, .number = ENOSPC, .lasting = lasting},
            [&] { run.remove(), run.train(2); }, [&] { error_of([&] { run.train(3, true); }); },
            [&](long) {
                const std::optional<ResumePoint> point = run.look();
                REQUIRE(point);
                CHECK(point->checkpoint.step >= 2);
                run.train(4, true);
                CHECK(run.mistakes().empty());
            });
}

TEST_CASE("durability: a run's folder is synced once, and each file once with its checkpoint") {
    Run run;
    const auto syncs = [&](const auto &work) {
        std::map<std::string, int> count;
        const Faults faults({.path = run.everything(), .call = "fsync"});
        work();
        for (const FileCall &call : faults.calls()) {
            std::string name = fs::path(call.path).lexically_relative(run.scratch.path);
            // Temporary names end in a number of eight digits.
            for (size_t at; (at = name.find(".tmp-")) != std::string::npos;)
                name.erase(std::min(name.find('/', at), name.size()) - 9, 9).erase(at, 5);
            ++count[name];
        }
        return count;
    };
    run.settings.resume = false;
    std::optional<RunFolder> folder(std::in_place, run.settings);
    CHECK(syncs([&] { folder->hold(run.settings); }) ==
          std::map<std::string, int>{{"run/config.toml", 1}, {"run", 1}, {".", 1}});
    // All that a run has is there once: config.toml as it was.
    CHECK(syncs([&] { folder->begin(run.settings, run.data, std::nullopt); }) ==
          std::map<std::string, int>{{"run", 1}});
    const auto save = [&](uint64_t step) {
        folder->record(StepEvent{step, 1, 1, 1, 1});
        folder->settle(folder->write(run.state(step), tensors_of(step)), 2);
    };
    save(1);
    CHECK(syncs([&] { save(2); }) ==
          std::map<std::string, int>{{"run/metrics.jsonl", 1},
                                     {"run/checkpoints/step-000002/model.safetensors", 1},
                                     {"run/checkpoints/step-000002/optimizer.safetensors", 1},
                                     {"run/checkpoints/step-000002/config.json", 1},
                                     {"run/checkpoints/step-000002/state.json", 1},
                                     {"run/checkpoints/step-000002/manifest.json", 1},
                                     {"run/checkpoints/step-000002", 1},
                                     {"run/checkpoints", 1},
                                     {"run/model.safetensors", 1},
                                     {"run", 1}});
}

TEST_CASE("runs verify: each thing that is not whole is named") {
    const struct {
        std::function<void(const Run &)> damage;
        const char *words;
        bool mended = true;  ///< by a resume
    } cases[] = {
        {[](const Run &r) { fs::remove(r.path / "model.safetensors"); }, "model.safetensors is missing"},
        {[](const Run &r) { damage(r.path / "model.safetensors"); }, "model.safetensors is not that of step-000003"},
        {[](const Run &r) {
             fs::copy_file(r.checkpoint(2) / "model.safetensors", r.path / "model.safetensors",
                           fs::copy_options::overwrite_existing);
         },
         "model.safetensors is not that of step-000003"},
        {[](const Run &r) { fs::remove(r.path / "config.json"); }, "config.json is missing"},
        {[](const Run &r) { damage(r.checkpoint(3) / "model.safetensors"); },
         "checkpoints/step-000003: model.safetensors has changed since it was written"},
        {[](const Run &r) { fs::remove(r.checkpoint(2) / "state.json"); }, "step-000002: cannot read", false},
        {[](const Run &r) { fs::remove(r.config()); }, "config.toml is missing"},
        {[](const Run &r) { write_plainly(r.path / "checkpoints/.tmp-step-000009-1", ""); },
         "checkpoints/.tmp-step-000009-1 is half written: its process was killed"},
        {[](const Run &r) { fs::remove(r.path / "metrics.jsonl"); }, "metrics.jsonl is missing", false},
        {[](const Run &r) { fs::resize_file(r.path / "metrics.jsonl", 100); }, "metrics.jsonl ends with step 1", false},
        {[](const Run &r) { write_plainly(r.path / "metrics.jsonl", "nothing\n"); }, "not JSON: \"nothing\"", false},
        {[](const Run &r) { write_plainly(r.path / "vocab.json", "[]"); }, "vocab.json: not a vocabulary", false},
        {[](const Run &r) { fs::remove_all(r.path / "checkpoints"); }, "it has no checkpoint yet", false},
    };
    for (const auto &c : cases) {
        CAPTURE(std::string(c.words));
        Run run;
        run.train(3);
        CHECK(run.mistakes().empty());
        c.damage(run);
        std::string all;
        for (const std::string &mistake : run.mistakes()) all += mistake + "\n";
        CAPTURE(all);
        CHECK(contains(all, c.words));
        if (!c.mended) continue;
        run.train(3, true);
        CHECK(run.mistakes().empty());
    }
    Run run;
    run.train(3);
    RunFolder other(run.settings);
    run.settings.resume = true;
    other.hold(run.settings);
    REQUIRE(run.mistakes().size() == 1);
    CHECK(contains(run.mistakes()[0], "a process is training in it"));
    CHECK_ERROR(run.train(4, true), "another process is training in");
    Scratch somebodys;
    REQUIRE(check_run(somebodys.path).mistakes.size() == 1);
    CHECK(contains(check_run(somebodys.path).mistakes[0], "it is not the folder of a run"));
}

TEST_CASE("run folder: names of classes are in confusion.svg if the model has as many outputs") {
    Run run;
    RunFolder folder(run.settings);
    folder.hold(run.settings);
    folder.begin(run.settings, run.data, std::nullopt);
    auto named = [&](int classes) {
        EvalEvent e;
        e.classes = classes, e.confusion.resize(size_t(classes) * size_t(classes), 1);
        folder.write_confusion("vision", e, {"Trouser", "Dress"});
        return read_file(run.path / "confusion.svg").find(">Dress 1<") != std::string::npos;
    };
    CHECK(named(2));
    CHECK(!named(3));
}

}  // namespace cryolite::test
