// `check` takes the flags of the model, and no others.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/cli/flags.h"
#include "runtime/io/error.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

TEST_CASE("check: the flags of the model reach its program") {
    Scratch scratch;
    auto checked = [&](std::vector<std::string> flags) {
        flags.insert(flags.begin(), {"gpt", "--cache", (scratch / "cache").string()});
        return run_check(flags);
    };
    CHECK(checked({"--context", "9", "--positions", "8"}) == 2);  // said by the program: longer than its positions
    CHECK(checked({"--preset", "gpt2", "--context", "1025"}) == 2);
    CHECK(checked({"--width", "30"}) == 2);  // not divisible by its heads
    CHECK_ERROR(checked({"--preset", "nana"}), "did you mean nano?");
    CHECK_ERROR(checked({"--lyers", "2"}), "\"--lyers\" is not a flag of cryolite check gpt (did you mean --layers?)");
    for (const char *flag : {"--lr=0.1", "--resume", "--steps"})
        CHECK_ERROR(checked({flag, "1"}),
                    fmt::format("\"{}\" is not a flag of check, which compares gradients with finite "
                                "differences and trains nothing: it takes the parameters",
                                flag));
    CHECK_ERROR(checked({"--val", "a.txt"}), "--val is read beside --data, which was not given");
}

TEST_CASE("check: data that are given are read") {
    Scratch scratch;
    const std::string cache = scratch / "cache", table = write_plainly(scratch / "table.csv", "1,2,0\n3,4,1\n"),
                      text = write_plainly(scratch / "text.txt", std::string(100, 'a') + std::string(100, 'b'));
    CHECK_ERROR(run_check({"digits", "--cache", cache, "--data", table}),
                "table.csv has 2 features in a row, the model reads 64: name another --data");
    CHECK_ERROR(run_check({"gpt", "--cache", cache, "--data", scratch / "none.txt"}), "none.txt: No such file");
    CHECK_ERROR(run_check({"gpt", "--cache", cache, "--data", scratch / "none.txt"}), "--data: cannot read ");
    CHECK_ERROR(run_check({"gpt", "--cache", cache, "--data", text, "--val", scratch / "none"}), "--val: cannot read ");
    CHECK_ERROR(run_check({"gpt", "--cache", cache, "--data", text, "--vocab", "1", "--context", "4"}),
                "expected at least 2, the vocab");
}

TEST_CASE("check: a file may give them, beside what only a run needs") {
    Scratch scratch;
    write_plainly(scratch / "run.toml", "app = \"gpt\"\nlayers = 3\nlr = 0.1\n");
    const std::string file = scratch / "run.toml", cache = scratch / "cache";
    const Request r = read_request(Command::check, {"--config", file, "--cache", cache});
    CHECK(r.app == "gpt");
    CHECK(r.values.text("layers") == "3");
}

}  // namespace cryolite::test
