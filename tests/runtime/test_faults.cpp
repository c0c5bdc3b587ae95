// The tester of faults itself: what it does not notice, no test with it notices.

#include "tests/faults/faults.h"
#include "tests/runtime/scratch.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>

namespace cryolite::test {

namespace {

/// A call of each kind on files of `folder`, as the file layer makes them.
void touch(const fs::path &folder) {
    write_file_atomic(folder / "a", "some text");
    read_file(folder / "a");
    MappedFile mapped(folder / "a");
    fs::copy_file(folder / "a", folder / "b");
    fs::create_hard_link(folder / "a", folder / "c");
    fs::create_directory(folder / "d");
    for (const fs::directory_entry &entry : fs::directory_iterator(folder)) (void)entry.is_regular_file();
    remove_folder(folder / "d");
    fs::remove(folder / "b");
}

}  // namespace

TEST_CASE("faults: every kind of call is counted, ours and those of std::filesystem") {
    Scratch scratch, elsewhere;
    const Faults faults({.path = scratch.path.string() + "*"});
    touch(elsewhere.path);
    CHECK(faults.calls().empty());
    touch(scratch.path);
    const std::vector<FileCall> calls = faults.calls();
    for (const char *name : {"open", "read", "write", "close", "fsync", "rename", "stat", "mmap", "link", "mkdir",
                             "opendir", "readdir", "unlink"}) {
        CAPTURE(std::string(name));
        CHECK(std::ranges::count(calls, name, &FileCall::name) > 0);
    }
    CHECK(std::ranges::count(calls, FileCall{"fsync", scratch.path}) == 1);
    CHECK(std::ranges::count(calls, FileCall{"rename", scratch / "a"}) == 1);
}

TEST_CASE("faults: the n-th call fails, once or from then on, and no other") {
    Scratch scratch;
    const std::string all = scratch.path.string() + "/*";
    const auto opens = [&] { return ::open((scratch / "a").c_str(), O_RDONLY | O_CLOEXEC); };
    write_plainly(scratch / "a", "text");
    {
        const Faults faults({.path = all, .fault = Fault::error, .at = 2, .number = ESTALE, .call = "open"});
        CHECK(::close(opens()) == 0);
        CHECK(opens() == -1);
        CHECK(errno == ESTALE);
        CHECK(::close(opens()) == 0);
    }
    {
        const Faults faults({.path = all, .fault = Fault::error, .at = 2, .call = "open", .lasting = true});
        CHECK(::close(opens()) == 0);
        for (int i = 0; i < 3; ++i) CHECK(opens() == -1);
    }
    CHECK(::close(opens()) == 0);
}

TEST_CASE("faults: a process is killed before the n-th call, or in the middle of a write") {
    Scratch scratch;
    const auto write = [&] { write_plainly(scratch / "a", "12345678"); };
    const std::string path = scratch / "a";
    CHECK(killed({.path = path, .fault = Fault::kill, .at = 1}, write));
    CHECK_FALSE(fs::exists(scratch / "a"));
    CHECK(killed({.path = path, .fault = Fault::kill, .at = 1, .call = "write"}, write));
    CHECK(read_file(scratch / "a").empty());
    CHECK(killed({.path = path, .fault = Fault::torn, .at = 1, .call = "write"}, write));
    CHECK(read_file(scratch / "a") == "1234");
    CHECK_FALSE(killed({.path = path, .fault = Fault::kill, .at = 100}, write));
    CHECK(read_file(scratch / "a") == "12345678");
}

TEST_CASE("faults: at every call") {
    Scratch scratch;
    const auto write = [&] { write_plainly(scratch / "a", "12345678"); };
    const auto nothing = [](long) {};
    const FaultPlan plan{.path = scratch / "a", .fault = Fault::kill};
    CHECK(at_every_call(
              plan, [] {}, write, nothing) >= 2);  // open, write
    int failed = 0;
    const auto copy = [&] { failed += !error_of([&] { read_file(scratch / "a"); }).empty(); };
    const long calls = at_every_call(
        {.path = scratch / "a", .fault = Fault::error}, [] {}, copy, nothing);
    CHECK(calls == 5);   // open, stat, read, read to the end, close
    CHECK(failed == 4);  // nothing is lost where a file that was read cannot be closed
}

TEST_CASE("faults: any program has them by its environment") {
    Scratch scratch;
    const fs::path file = write_plainly(scratch / "a", "text"), trace = scratch / "trace";
    const auto cat = [&](const std::string &variables) {
        return ::system(("LD_PRELOAD='" CRYOLITE_FAULTS_LIBRARY "' CRYOLITE_FAULT_PATH='*/a' " + variables + " cat '" +
                         file.string() + "' > '" + (scratch / "out").string() + "' 2> '" + (scratch / "err").string() +
                         "'")
                            .c_str());
    };
    CHECK(cat("CRYOLITE_FAULT_TRACE='" + trace.string() + "'") == 0);
    CHECK(read_file(scratch / "out") == "text");
    CHECK(contains(read_file(trace), "open " + file.string() + "\n"));
    CHECK(cat("CRYOLITE_FAULT=error CRYOLITE_FAULT_AT=1 CRYOLITE_FAULT_CALL=open CRYOLITE_FAULT_ERRNO=116") != 0);
    CHECK(contains(read_file(scratch / "err"), "Stale file handle"));
    CHECK(cat("CRYOLITE_FAULT=kill CRYOLITE_FAULT_AT=1 CRYOLITE_FAULT_CALL=open") != 0);
    CHECK(read_file(scratch / "err").find("Stale") == std::string::npos);
}

}  // namespace cryolite::test
