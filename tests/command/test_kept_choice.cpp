// What a search keeps while it goes on, and what it leaves of an earlier one.

#include "apps/cryolite/tune/kept_choice.h"

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

SearchChoice found(const std::string &lines, double after, bool same_bits = false) {
    return {.app = "gpt", .lines = lines, .same_bits = same_bits, .before = 1, .after = after};
}

struct Fixture {
    Scratch folder;
    SearchRecords records{folder.path, {"a machine", 2}};
    std::string lines() const {
        const auto c = records.choice("a step");
        return c ? c->lines : "none at all";
    }
    KeptChoice search(bool same_bits = false) { return {records, "a step", same_bits}; }
};

const auto beats = [](const SearchChoice &) { return true; };
const auto does_not = [](const SearchChoice &) { return false; };

}  // namespace

TEST_CASE("kept choice: what is confirmed is in the cache at once") {
    Fixture f;
    KeptChoice k = f.search();
    k.so_far(found("", 1));
    CHECK(f.lines() == "none at all");
    k.so_far(found("no faster", 1.0001));
    CHECK(f.lines() == "none at all");
    k.so_far(found("a", 0.9));
    CHECK(f.lines() == "a");
    k.so_far(found("a; b", 0.95));  // of one search the latest is the best
    CHECK(f.lines() == "a; b");
    CHECK(k.end(found("a; b; c", 0.8), beats).lines == "a; b; c");
    CHECK(f.lines() == "a; b; c");
}

TEST_CASE("kept choice: what an earlier search found stays until something better is confirmed") {
    Fixture f;
    f.records.choose("a step", found("earlier", 0.8));
    KeptChoice k = f.search();
    k.so_far(found("a", 0.9));
    CHECK(f.lines() == "earlier");
    k.so_far(found("a; b", 0.7));
    CHECK(f.lines() == "a; b");
    // Timed beside each other, the earlier one is faster after all.
    CHECK(k.end(found("a; b", 0.7), does_not).lines == "earlier");
    CHECK(f.lines() == "earlier");
    CHECK(f.search().end(found("", 1), beats).lines == "earlier");  // nothing was found
    CHECK(f.lines() == "earlier");
    CHECK(f.search().end(found("c", 0.75), beats).lines == "c");
    CHECK(f.lines() == "c");
    CHECK(f.search().end(found("c", 0.7), does_not).after == 0.7);  // the same lines need no timing
    CHECK(f.records.choice("a step")->after == 0.7);
}

TEST_CASE("kept choice: what was kept on the way and is not faster as a whole goes") {
    Fixture f;
    KeptChoice k = f.search();
    k.so_far(found("a", 0.9));
    CHECK(k.end(found("", 1), beats).lines.empty());
    CHECK(f.lines().empty());
}

TEST_CASE("kept choice: a search that keeps the bits does not leave lines that do not; from scratch is no line") {
    Fixture f;
    f.records.choose("a step", found("earlier", 0.5));
    f.search(true).so_far(found("a", 0.9, true));
    CHECK(f.lines() == "a");
    Fixture scratch;
    scratch.records.choose("a step", found(scratch_lines, 0.5));
    scratch.search().so_far(found(scratch_lines + "; a", 0.9));
    CHECK(scratch.lines() == scratch_lines + "; a");
}

}  // namespace cryolite::test
