// What the folder of a run says of it.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/run/find_run.h"
#include "apps/cryolite/run/run_summary.h"
#include "apps/cryolite/session/settings.h"
#include "runtime/io/error.h"
#include "tests/runtime/scratch.h"

#include <doctest/doctest.h>

namespace cryolite::test {

TEST_CASE("the words that resume a run, and that sample from it, are for a shell") {
    CHECK(resume_command("runs/x_1").ends_with(" train --out runs/x_1 --resume"));
    CHECK(resume_command("my run").ends_with(" train --out 'my run' --resume"));
    CHECK(resume_command("Ann's").ends_with(R"( train --out 'Ann'\''s' --resume)"));
    CHECK(sample_command("my run").ends_with(" sample 'my run'"));
    CHECK_ERROR(run_sample({}), "RUN is required, the folder of a run: cryolite runs ls lists those in runs; see");
}

TEST_CASE("the program of a run that is not there any more is refused by name") {
    const Scratch scratch;
    CHECK_ERROR(
        program_of_run("runs/x", "gone/e.cpp", Cache(scratch.path)),
        "runs/x is a run of the program gone/e.cpp, which is not there any more: put it back, name its new path "
        "(cryolite train PATH --out runs/x --resume), or write that into runs/x/config.toml, as app = \"PATH\"");
}

TEST_CASE("run summary: configuration, losses, best validation loss and median rate") {
    const Scratch scratch;
    const fs::path run = scratch / "run";
    fs::create_directories(run);
    CHECK_THROWS_WITH_AS(summarize_run(run), doctest::Contains("is not the folder of a run"), UsageError);
    CHECK_THROWS_WITH_AS(summarize_run(scratch / "runn"), doctest::Contains("there is no run in"), UsageError);
    CHECK_ERROR(summarize_run(write_plainly(scratch / "file", "text")), "is a file, expected the folder of a run");

    write_file_atomic(run / "config.toml", std::string(config_heading) + "\napp = \"gpt\"\nsteps = 10\nlr = 0.5\n");
    RunSummary s = summarize_run(run);  // killed before its first step
    CHECK(s.step() == 0);
    CHECK(!s.best_val_loss);
    const fs::path checkpoint = run / "checkpoints/step-000002";
    fs::create_directories(checkpoint);
    for (const fs::path &part : {checkpoint, checkpoint / "", run / "checkpoints"})
        CHECK_ERROR(require_run(part),
                    part.string() + " is a part of a run: name the run's folder, " + fs::relative(run).string());
    CHECK_ERROR(require_run(run / "config.toml"),
                "config.toml is a file, expected the folder of a run, such as " + fs::relative(run).string());
    CHECK_ERROR(require_run(scratch.path), "name one of those in it, such as " + run.string());
    CHECK(s.value("lr") == "0.5");
    CHECK(s.value("of nothing") == "");

    write_file_atomic(run / "metrics.jsonl", R"({"event":"step","step":1,"loss":4.5,"tok_s":10}
{"event":"step","step":2,"loss":4.25,"tok_s":30}
{"event":"eval","step":2,"val_loss":4.0}
{"event":"step","step":3,"loss":null,"tok_s":20}
no JSON
{"event":"eval","step":4,"val_loss":4.125}
{"event":"step","step":5,"lo)");
    s = summarize_run(run);
    CHECK(s.value("app") == "gpt");
    CHECK(s.step() == 2);  // the last with a loss
    CHECK(s.losses.train.size() == 2);
    CHECK(s.best_val_loss == 4.0);
    CHECK(s.tok_s == 20.0);

    write_file_atomic(run / "metrics.jsonl", R"({"event":"eval","step":2,"val_loss":4.0}
{"event":"eval","step":4,"val_loss":4.5,"batches":2}
{"event":"eval","step":6,"val_loss":4.75,"batches":2}
)");
    CHECK(summarize_run(run).best_val_loss == 4.5);  // not that of other batches

    write_file_atomic(run / "config.toml", std::string(config_heading) + "\nsteps = = 10\n");
    CHECK_THROWS_WITH_AS(summarize_run(run), doctest::Contains("config.toml: line 2: not TOML"), UsageError);
}

}  // namespace cryolite::test
