// The search itself: the loops of kernels.

#include "apps/cryolite/tune/search_words.h"
#include "tests/command/search_stand_in.h"

namespace cryolite::test {

TEST_CASE("search: the fastest numbers win, one after another, as one line for all blocks") {
    Fixture f;
    f.measurer.times = {
        {"columns=16", 0.9}, {"columns=16 rows=4", 0.6}, {"columns=16 parts=2 rows=4", 0.5}, {"rows=2", 0.8}};
    const Done d = f.run();
    CHECK(d.result.lines == Strings{"loops(h.*.up, forward): columns=16 parts=2 rows=4"});
    CHECK(d.news.back().taken);
    CHECK(d.news.back().ratio == doctest::Approx(0.5));
    CHECK(d.news.front().roof_now == doctest::Approx(0.3));
    CHECK(d.news.back().roof == doctest::Approx(0.3));
    CHECK(d.news.back().roof_now == doctest::Approx(0.6));
    CHECK(d.result.refused == 0);
    CHECK(f.measurer.stepped == Strings{"loops(h.*.up, forward): columns=16 parts=2 rows=4"});
}

TEST_CASE("search: nothing is measured twice, by this search or by a later one") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.7}};
    f.run();
    const Strings first = f.measurer.timed;
    CHECK(std::set<std::string>(first.begin(), first.end()).size() == first.size() - 1);  // the winner, again
    f.measurer.timed.clear();
    const Done again = f.run();
    CHECK(again.result.lines == Strings{"loops(h.*.up, forward): rows=4"});
    CHECK(f.measurer.timed == Strings{"rows=4"});  // confirmed, not believed
    CHECK(again.result.known > 0);
    CHECK(again.of("rows=2").known);
}

TEST_CASE("search: what is wrong, hangs, aborts, eats memory or races is refused and recorded, and costs no more") {
    Fixture f;
    f.measurer.times = {{"rows=2", 0.1}, {"rows=4", 0.1}, {"rows=6", 0.1}, {"columns=16", 0.1}, {"parts=2", 0.8}};
    f.measurer.wrong = {{"rows=2", "its result is off by 1"},
                        {"rows=4", "it ran longer than the limit of 60 s"},
                        {"rows=6", "its result depends on the order of its parallel iterations"},
                        {"columns=16", "compiler: it ran out of memory"}};
    const Done d = f.run();
    CHECK(d.result.lines == Strings{"loops(h.*.up, forward): parts=2"});
    CHECK(d.result.refused >= 4);
    for (const auto &[numbers, why] : f.measurer.wrong) CHECK(d.of(numbers).refused == why);
    f.measurer.timed.clear(), f.measurer.made.clear();
    f.run();
    for (const auto &[numbers, why] : f.measurer.wrong) {
        CHECK(std::ranges::count(f.measurer.timed, numbers) == 0);
        CHECK(std::ranges::count(f.measurer.made, numbers) == 0);
    }
}

TEST_CASE("search: a winner wins by more than the noise, twice, and slows no whole step") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.985}};
    CHECK(f.run().result.lines.empty());
    Fixture once;
    once.measurer.lucky = {"rows=4"};
    CHECK(once.run().result.lines.empty());
    Fixture slow;
    slow.measurer.times = {{"rows=4", 0.5}};
    slow.measurer.steps = {{"loops(h.*.up, forward): rows=4", 1.2}};
    const Done d = slow.run();
    CHECK(d.result.lines.empty());
    CHECK(!d.news.back().taken);
}

TEST_CASE("search: what was measured while the machine was too busy is neither believed nor kept") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.busy = true;
    CHECK(f.run().result.lines.empty());
    f.measurer.busy = false;
    CHECK(f.run().result.lines == Strings{"loops(h.*.up, forward): rows=4"});
}

TEST_CASE("search: with the same bits, what adds in another order is not tried, and what has others not taken") {
    Fixture f;
    f.same_bits = true;
    f.measurer.times = {{"parts=2", 0.2}, {"rows=4", 0.4}, {"rows=6", 0.6}};
    f.measurer.other_bits = {"rows=4"};
    const Done d = f.run();
    CHECK(d.result.lines == Strings{"loops(h.*.up, forward): rows=6"});
    CHECK(std::ranges::count(f.measurer.timed, "parts=2") == 0);
}

TEST_CASE("search: automatic loops are tried after lines, in place of the numbers that were found") {
    Fixture f;
    SearchKernel k = product();
    k.numbers.push_back({"automatic", 0, 0, {0, 1, 2}, false});
    f.measurer.times = {{"rows=4", 0.6}, {"automatic=2", 0.4}};
    const Done d = f.run({k}, {"s(a).compute_root()"});
    CHECK(d.result.lines == Strings{"loops(h.*.up, forward): automatic=2"});
    CHECK(f.measurer.calls_timed.back() == "loops(h.*.up, forward): automatic=2");
    CHECK(std::ranges::count(f.measurer.calls_timed, "loops(h.*.up, forward): rows=4; s(a).compute_root()") == 1);
    CHECK(f.measurer.stepped == Strings{"loops(h.*.up, forward): rows=4", "loops(h.*.up, forward): automatic=2"});
    Fixture exact;
    exact.same_bits = true;
    exact.measurer.times = f.measurer.times;
    CHECK(exact.run({k}).result.lines == Strings{"loops(h.*.up, forward): rows=4"});
}

TEST_CASE("search: what won on other machines is tried first, what was refused there last, and neither is believed") {
    const Strings as_listed = {"rows=2", "rows=4", "rows=6"};
    const auto order = [](const Fixture &f) {
        Strings list;
        for (const std::string &n : f.measurer.timed)
            if (n.starts_with("rows=")) list.push_back(n);
        return list;
    };
    Fixture alone;
    alone.run();
    CHECK(order(alone) == as_listed);
    Fixture f;
    const auto elsewhere = [&](const std::string &numbers, const CandidateRecord &r) {
        SearchRecords(f.folder.path, {"another machine", 2}).remember({"product", "cryolite_7", numbers}, r);
    };
    elsewhere("rows=6", {.ratio = 0.5, .same_bits = true});
    elsewhere("rows=2", {.refused = "it hangs"});
    const Done d = f.run();
    CHECK(order(f) == Strings{"rows=6", "rows=4", "rows=2"});
    CHECK(d.result.lines.empty());
    CHECK(!d.of("rows=6").known);
    CHECK(d.of("rows=2").refused.empty());
}

TEST_CASE("search: where no machine knows better, those come first whose inner loops allow most") {
    const auto rows = [](const Fixture &f) {
        Strings list = f.measurer.timed;
        std::erase_if(list, [](const std::string &n) { return !n.starts_with("rows="); });
        return list;
    };
    Fixture f;
    f.measurer.limits = {{"", 0.8}, {"rows=2", 0.4}, {"rows=4", 0.9}, {"rows=6", 0.96}};
    const Done d = f.run();
    CHECK(rows(f) == Strings{"rows=6", "rows=4", "rows=2"});
    CHECK(d.of("rows=2").predicted == doctest::Approx(2));
    CHECK(d.of("columns=16").predicted == 0);  // its loops were not read

    Fixture other;
    other.measurer.limits = f.measurer.limits;
    SearchRecords(other.folder.path, {"another machine", 2})
        .remember({"product", "cryolite_7", "rows=2"}, {.ratio = 0.5, .same_bits = true});
    other.run();
    CHECK(rows(other) == Strings{"rows=2", "rows=6", "rows=4"});
}

TEST_CASE("search: what is refused when it is compiled is kept before any other is timed") {
    Fixture f;
    f.measurer.wrong = {{"rows=6", "compiler: it aborts"}};
    f.measurer.before_timing = [&] {
        if (f.measurer.timed.empty()) throw Interrupted("killed");
    };
    CHECK(f.run({product()}).result.candidates == 0);
    const CandidateKey key{"product", "cryolite_1 ", "rows=6"};
    CHECK(!SearchRecords(f.folder.path, {"a machine", 2}).find(key));  // columns come first
    SearchKernel k = product();
    k.numbers.erase(k.numbers.begin());
    f.run({k});
    const auto kept = SearchRecords(f.folder.path, {"a machine", 2}).find(key);
    REQUIRE(kept);
    CHECK(kept->refused == "compiler: it aborts");
}

TEST_CASE("search: each change is kept as soon as it is confirmed, before it is told") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.steps = {{"loops(h.*.up, forward): rows=4", 0.8},
                        {"loops(h.*.up, forward): rows=4; s(a).compute_root()", 0.4}};
    f.measurer.predicted = 0.79;
    f.run({product()}, {"s(a).compute_root()"});
    REQUIRE(f.kept.size() == 2);
    CHECK(f.kept[0].lines == Strings{"loops(h.*.up, forward): rows=4"});
    CHECK(f.kept[0].step == doctest::Approx(0.8));
    CHECK(f.kept[1].lines == Strings{"loops(h.*.up, forward): rows=4", "s(a).compute_root()"});
    CHECK(f.kept[1].step == doctest::Approx(0.4));
    Fixture none;
    none.run();
    CHECK(none.kept.empty());
}

TEST_CASE("search: it says how many candidates are left, and what was compared with the shipped kernel alone") {
    Fixture f;
    f.measurer.unsure = "it takes more than 60 s";
    f.measurer.times = {{"rows=4", 0.5}};
    SearchKernel other = product();
    other.name = "down", other.symbol = "cryolite_2", other.algorithm = "another", other.share = 0.1;
    other.loops_of = {"down, forward"};
    const Done d = f.run({product(), other}, {"s(a).compute_root()"});
    std::vector<SearchNews> searched;
    for (const SearchNews &n : d.news)
        if (n.what == SearchNews::of_kernel) searched.push_back(n);
    REQUIRE(searched.size() == 2);
    CHECK(searched[0].left == 6);  // five numbers of the other kernel, and a line
    CHECK(searched[1].left <= 1);
    CHECK(searched[0].unsure == "it takes more than 60 s");
    CHECK(d.of("rows=2").unsure == "it takes more than 60 s");
    CHECK(d.result.unsure > 0);
    CHECK(d.news.front().left == 5 - 1);
    Fixture nothing_taken;
    nothing_taken.measurer.unsure = f.measurer.unsure;
    CHECK(nothing_taken.run().news.back().unsure.empty());
}

TEST_CASE("search: from scratch, automatic loops are all that there is") {
    Fixture f;
    f.from_scratch = true;
    SearchKernel k = product();
    k.numbers = {{"automatic", 0, 0, {0, 1, 2}, false}};
    f.measurer.times = {{"automatic=1", 0.7}};
    CHECK(f.run({k}).result.lines == Strings{"loops(h.*.up, forward): automatic=1"});
}

TEST_CASE("search: from scratch, wide beams come last") {
    Fixture f;
    f.from_scratch = true;
    SearchKernel k = product();
    k.numbers = {{"automatic", 0, 0, {0, 1, 4, 5, 6}, false}};
    f.measurer.times = {{"automatic=6", 0.7}, {"automatic=5", 0.5}};
    const Done d = f.run({k});
    CHECK(d.result.lines == Strings{"loops(h.*.up, forward): automatic=5"});
    const auto first = [&](const std::string &numbers) {
        return std::ranges::find(f.measurer.made, numbers) - f.measurer.made.begin();
    };
    CHECK(first("automatic=1") < first("automatic=5"));
    CHECK(first("automatic=6") < first("automatic=5"));
}

TEST_CASE("search: automatic loops that have numbers are searched, too") {
    Fixture f;
    f.from_scratch = true;
    SearchKernel k = product();
    k.numbers = {{"automatic", 0, 0, {0, 1, 6}, false}};
    SearchKernel tiled = k;
    tiled.numbers[0].value = 6;
    tiled.numbers.push_back({"rows", 8, 8, {4, 8}, true});
    f.measurer.kernels_of["loops(h.*.up, forward): automatic=6"] = {tiled};
    f.measurer.times = {{"automatic=6", 0.7}, {"automatic=6 rows=4", 0.5}};
    CHECK(f.run({k}).result.lines == Strings{"loops(h.*.up, forward): automatic=6 rows=4"});
}

TEST_CASE("search: numbers that win once, but not again, are told") {
    Fixture f;
    f.measurer.lucky = {"rows=4"};
    const Done d = f.run();
    CHECK(d.result.lines.empty());
    const auto told = std::ranges::find_if(d.news, [](const SearchNews &n) { return n.what == SearchNews::of_kernel; });
    REQUIRE(told != d.news.end());
    CHECK(told->unconfirmed == "rows=4 (0.500 of the time)");
    CHECK(told->candidate == "");
    CHECK(search_row(*told, 10).ends_with("faster once, not confirmed: rows=4 (0.500 of the time)"));
}

TEST_CASE("search: a kernel that the step refuses is told with the reason") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.wrong["loops(h.*.up, forward): rows=4"] = "the losses are nan";
    const Done d = f.run();
    CHECK(d.result.lines.empty());
    const auto told = std::ranges::find_if(d.news, [](const SearchNews &n) { return n.what == SearchNews::of_kernel; });
    REQUIRE(told != d.news.end());
    CHECK(told->refused == "the losses are nan");
}

TEST_CASE("search: kernels by their share; a star only where no other kernel is meant by it") {
    Fixture f;
    SearchKernel other = product();
    other.name = "h.2.up", other.symbol = "cryolite_2", other.algorithm = "another", other.share = 0.9;
    other.loops_of = {"h.2.up, forward"};
    f.measurer.times = {{"rows=4", 0.5}};
    const Done d = f.run({product(), other});
    CHECK(d.result.lines == Strings{"loops(h.2.up, forward): rows=4", "loops(h.0.up, forward): rows=4",
                                    "loops(h.1.up, forward): rows=4"});
}

TEST_CASE("search: begins with the numbers that the program's own lines give a kernel") {
    Fixture f;
    SearchKernel k = product();
    k.numbers[1].value = 2;  // rows, usually 8
    f.measurer.times = {{"rows=2", 1.0}, {"rows=8", 0.5}};
    CHECK(f.run({k}).result.lines == Strings{"loops(h.*.up, forward): rows=8"});
    CHECK(f.measurer.made.front() == "rows=2");
}

TEST_CASE("search: when time is out or Ctrl-C comes, the best so far stays") {
    SearchKernel second = product();
    second.name = "down", second.symbol = "cryolite_2", second.algorithm = "another", second.share = 0.1;
    second.loops_of = {"down, forward"};
    Fixture f;
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.before_timing = [&] {
        if (f.measurer.stepped.size() == 1) throw Interrupted("interrupted");  // during the second kernel
    };
    CHECK(f.run({product(), second}).result.lines == Strings{"loops(h.*.up, forward): rows=4"});
    Fixture late;
    late.measurer.times = {{"rows=4", 0.5}};
    late.left = 0;
    CHECK(late.run().result.candidates == 0);
    Fixture stopped;
    stopped.stopped = true;
    CHECK(stopped.run({product()}, {"s(a).compute_root()"}).result.candidates == 0);
}

}  // namespace cryolite::test
