// What searches have measured and found: kept by machine, found by all of the key, begun again where damaged.

#include "runtime/cache/search_records.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

const SearchMachine machine{"a machine", 2};
const CandidateKey key{"an algorithm", "cryolite_1", "rows=4"};

}  // namespace

TEST_CASE("searches: a candidate is found by all of its key, on its machine with its threads") {
    Scratch folder;
    {
        SearchRecords r(folder.path, machine);
        CHECK(r.hindrance() == "");
        CHECK(!r.find(key));
        r.remember(key, {.ratio = 0.75, .noise = 0.01, .same_bits = true});
        r.remember({"an algorithm", "cryolite_1", "rows=5"}, {.refused = "it hangs"});
        CHECK(r.count() == 2);
    }
    const SearchRecords again(folder.path, machine);
    REQUIRE(again.find(key));
    CHECK(again.find(key)->ratio == 0.75);
    CHECK(again.find(key)->noise == 0.01);
    CHECK(again.find(key)->same_bits);
    CHECK(again.find({"an algorithm", "cryolite_1", "rows=5"})->refused == "it hangs");
    CHECK(!again.find({"another", "cryolite_1", "rows=4"}));
    CHECK(!again.find({"an algorithm", "cryolite_2", "rows=4"}));
    CHECK(!again.find({"an algorithm", "cryolite_1", "rows=6"}));
    CHECK(!SearchRecords(folder.path, {"another", 2}).find(key));
    CHECK(!SearchRecords(folder.path, {"a machine", 3}).find(key));
}

TEST_CASE("searches: the time of a kernel, on its machine with its threads; also in a file that had no such table") {
    Scratch folder;
    {
        SearchRecords r(folder.path, machine);
        r.remember(key, {.ratio = 0.75});
        Database::Statement(Database(folder.path, {"searches.sqlite", 1, "", "SELECT 1"}), "DROP TABLE times").step();
    }
    {
        SearchRecords r(folder.path, machine);
        CHECK(r.find(key)->ratio == 0.75);
        CHECK(!r.time_of("cryolite_1"));
        r.remember_time("cryolite_1", 2e-3);
        r.remember_time("cryolite_1", 1e-3);
    }
    const SearchRecords again(folder.path, machine);
    CHECK(again.time_of("cryolite_1") == 1e-3);
    CHECK(!again.time_of("cryolite_2"));
    CHECK(!SearchRecords(folder.path, {"another", 2}).time_of("cryolite_1"));
    CHECK(!SearchRecords(folder.path, {"a machine", 3}).time_of("cryolite_1"));
}

TEST_CASE("searches: what candidates came to elsewhere is a median, which no other search finds as its own") {
    Scratch folder;
    const auto remember = [&](const SearchMachine &m, const std::string &base, const CandidateRecord &r) {
        SearchRecords(folder.path, m).remember({"an algorithm", base, "rows=4"}, r);
    };
    const SearchRecords here(folder.path, machine);
    CHECK(!here.elsewhere("an algorithm", "rows=4").ratio);
    CHECK(!here.elsewhere("an algorithm", "rows=4").refused);
    remember(machine, "cryolite_1", {.ratio = 9});  // its own say nothing of elsewhere
    remember({"another", 2}, "cryolite_7", {.refused = "it hangs"});
    CHECK(here.elsewhere("an algorithm", "rows=4").refused);
    remember({"a machine", 3}, "cryolite_7", {.ratio = 0.5});
    remember({"another", 8}, "cryolite_8", {.ratio = 0.9});
    CHECK(here.elsewhere("an algorithm", "rows=4").ratio == doctest::Approx(0.7));
    remember({"a third", 2}, "cryolite_9", {.ratio = 0.8});
    CHECK(here.elsewhere("an algorithm", "rows=4").ratio == 0.8);
    CHECK(!here.elsewhere("an algorithm", "rows=4").refused);
    CHECK(here.elsewhere("an algorithm", "rows=4", "cryolite_8").ratio == 0.9);
    CHECK(!here.elsewhere("another algorithm", "rows=4").ratio);
    CHECK(here.find({"an algorithm", "cryolite_1", "rows=4"})->ratio == 9);
    CHECK(!here.find({"an algorithm", "cryolite_7", "rows=4"}));
}

TEST_CASE("searches: a choice replaces an older one, and is forgotten alone") {
    Scratch folder;
    SearchRecords r(folder.path, machine);
    const SearchChoice choice{
        .app = "gpt", .lines = "loops(up, forward): rows=4", .before = 2, .after = 1, .refused = 3};
    r.choose("a step", choice);
    r.choose("another", choice);
    SearchChoice better = choice;
    better.lines = "loops(up, forward): rows=5", better.same_bits = true;
    r.choose("a step", better);
    REQUIRE(r.choice("a step"));
    CHECK(r.choice("a step")->lines == better.lines);
    CHECK(r.choice("a step")->same_bits);
    CHECK(r.choice("a step")->refused == 3);
    CHECK(!SearchRecords(folder.path, {"a machine", 3}).choice("a step"));
    CHECK(r.forget("a step"));
    CHECK(!r.forget("a step"));
    CHECK(r.choice("another"));
}

TEST_CASE("searches: what is damaged, of another version or not ours is a miss, and begun again") {
    auto spoil = [](auto &&how) {
        Scratch folder;
        {
            SearchRecords r(folder.path, machine);
            for (int i = 0; i < 300; i++) r.remember({"a", "b", fmt::format("rows={}", i)}, {.ratio = 1});
        }
        REQUIRE(SearchRecords::damage(folder.path) == "");
        how(SearchRecords::file(folder.path));
        CHECK(SearchRecords::damage(folder.path) != "");
        SearchRecords r(folder.path, machine);
        CHECK(r.count() == 0);
        r.remember(key, {.ratio = 0.5});
        CHECK(r.find(key)->ratio == 0.5);
        CHECK(SearchRecords::damage(folder.path) == "");
    };
    spoil([](const fs::path &file) { fs::resize_file(file, fs::file_size(file) / 2); });
    spoil([](const fs::path &file) { write_file_atomic(file, "this is no database, whatever else it is", 0600); });
    spoil([](const fs::path &file) { fs::permissions(file, fs::perms::others_write, fs::perm_options::add); });
}

TEST_CASE("searches: a process that is killed leaves every record that it had made") {
    for (int after : {0, 3, 7, 11, 12, 13, 14, 15, 40}) {
        Scratch folder;
        SearchRecords(folder.path, machine).remember({"a", "b", "before"}, {.ratio = 1});
        int pipe_of[2];
        REQUIRE(pipe(pipe_of) == 0);
        const pid_t child = fork();
        if (child == 0) {
            SearchRecords r(folder.path, machine);
            for (int i = 0;; i++) {
                r.remember({"a", "b", fmt::format("rows={}", i)}, {.ratio = 1});
                if (write(pipe_of[1], "x", 1) != 1) _exit(1);
            }
        }
        char byte = 0;
        for (int i = 0; i <= after; i++) REQUIRE(read(pipe_of[0], &byte, 1) == 1);
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        close(pipe_of[0]), close(pipe_of[1]);
        CHECK(SearchRecords::damage(folder.path) == "");
        SearchRecords r(folder.path, machine);
        CHECK(r.find({"a", "b", "before"}));
        for (int i = 0; i <= after; i++) CHECK(r.find({"a", "b", fmt::format("rows={}", i)}));
        r.remember(key, {.ratio = 1});
    }
}

TEST_CASE("searches: a file that cannot be made is said, and nothing is taken for kept") {
    Scratch folder;
    fs::create_directory(folder.path / "searches.sqlite");
    write_file_atomic(folder.path / "searches.sqlite" / "x", "");
    SearchRecords r(folder.path, machine);
    CHECK(r.hindrance() != "");
    CHECK(!r.find(key));
    CHECK_THROWS_AS(r.remember(key, {.ratio = 1}), Error);
    CHECK_THROWS_AS(r.choose("a step", {}), Error);
}

}  // namespace cryolite::test
