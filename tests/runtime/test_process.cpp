#include "runtime/system/process.h"
#include "tests/runtime/scratch.h"

#include <signal.h>
#include <unistd.h>

namespace cryolite::test {

namespace {

ProcessOptions shell(const std::string &script) { return {.argv = {"sh", "-c", script}}; }

}  // namespace

TEST_CASE("process: output, errors and status come back") {
    const ProcessResult r = run_process(shell("echo out; echo err >&2; exit 3"));
    CHECK(r.output == "out\n");
    CHECK(r.errors == "err\n");
    CHECK(how_it_ended(r) == "exit status 3");
    CHECK(!r.ok());
    CHECK(run_process(shell("cat")).ok());  // stdin is empty
    CHECK_ERROR(run_process({.argv = {"/no/such/program"}}), "cannot run /no/such/program: No such file");
}

TEST_CASE("process: a crash has the name of its signal") {
    const ProcessResult r = run_process(shell("kill -SEGV $$"));
    CHECK(r.signal == SIGSEGV);
    CHECK(how_it_ended(r) == "it crashed (Segmentation fault)");
}

TEST_CASE("process: limits end it with all that it started") {
    Scratch scratch;
    ProcessOptions o = shell("(sleep 3; touch " + (scratch / "late").string() + ") & sleep 100");
    o.time_limit = 0.2;
    const ProcessResult r = run_process(o);
    CHECK(how_it_ended(r) == "it ran longer than the limit of 0.2 s");
    CHECK(r.seconds < 2);
    // One that closed its output is held to it, too.
    o = shell("exec >&- 2>&-; sleep 100");
    o.time_limit = 0.2;
    CHECK(run_process(o).limit == 0.2);
    usleep(100000);
    CHECK(!fs::exists(scratch / "late"));
}

TEST_CASE("process: silence ends it, signs of life do not") {
    int lines = 0;
    ProcessOptions o = shell("for i in 1 2 3 4 5; do echo alive; sleep 0.2; done; sleep 100");
    o.silence_limit = 0.6;
    o.on_line = [&](std::string_view line) { return ++lines, line == "alive"; };
    CHECK(run_process(o).limit == 0.6);
    CHECK(lines == 5);
    lines = 0;
    o = shell("while true; do echo talk; sleep 0.05; done");
    o.silence_limit = 0.4;
    o.on_line = [&](std::string_view) { return ++lines, false; };
    CHECK(run_process(o).limit == 0.4);
    CHECK(lines > 1);
}

TEST_CASE("process: one that talks without end fills no memory") {
    ProcessOptions o = shell("yes 'a very long story' >&2");
    o.time_limit = 0.5;
    const ProcessResult r = run_process(o);
    CHECK(r.errors.size() <= 64 << 10);
    o = shell("yes | tr -d '\\n'");
    o.time_limit = 0.5;
    CHECK(run_process(o).output.size() <= 16 << 20);
}

TEST_CASE("process: memory has a limit, for each process") {
    ProcessOptions o = shell("x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done");
    o.memory_limit = 64 << 20;
    o.time_limit = 20;
    const ProcessResult r = run_process(o);
    CHECK(!r.ok());
    CHECK(r.limit == 0);
    CHECK((memory_share(2) == 0 || memory_share(2) >= uint64_t{2} << 30));
}

TEST_CASE("process: a signal ends the child, then reaches its handler here") {
    static volatile sig_atomic_t seen = 0;
    struct sigaction action {
    }, before{};
    action.sa_handler = [](int) { seen = 1; };
    for (auto [number, name] : {std::pair{SIGTERM, "TERM"}, {SIGHUP, "HUP"}}) {
        seen = 0;
        sigaction(number, &action, &before);
        ProcessOptions o = shell(fmt::format("kill -{} $PPID; sleep 100", name));
        CHECK_THROWS_AS(run_process(o), Interrupted);
        CHECK(seen == 1);
        sigaction(number, &before, nullptr);
    }
}

TEST_CASE("process: the end of a text begins with a line") {
    CHECK(last_lines("one\ntwo\nthree\n\n", 10) == "three");
    CHECK(last_lines("short\n") == "short");
    CHECK(last_lines("") == "");
}

}  // namespace cryolite::test
