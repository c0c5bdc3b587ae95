// The search over lines of the step schedule, together with loops, and what is predicted of lines.

#include "apps/cryolite/tune/check_model.h"
#include "tests/command/search_stand_in.h"

namespace cryolite::test {

TEST_CASE("search: lines of the step schedule by the sum of kernels' times, confirmed twice as whole steps") {
    Fixture f;
    f.measurer.steps = {{"s(a).compute_root()", 0.9}, {"s(a).compute_root(); s(b).compute_with(c)", 0.8}};
    f.measurer.sums = {{"s(d).compute_root()", 1.1}, {"s(a).compute_root(); s(d).compute_root()", 1.1}};
    f.measurer.refused_lines = {{"s(b).compute_at(c)", "it is stored"}};
    const Strings lines = {"s(a).compute_root()", "s(b).compute_at(c)", "s(d).compute_root()", "s(b).compute_with(c)"};
    const Done d = f.run({}, lines);
    CHECK(d.result.lines == Strings{"s(a).compute_root()", "s(b).compute_with(c)"});
    CHECK(d.result.lines_tried == 4);
    CHECK(d.result.lines_refused == 1);
    CHECK(d.result.lines_kept == 2);
    CHECK(d.news.front().refused == "it is stored");
    CHECK(d.news.back().kept == 2);
    CHECK(d.news.back().predicted == doctest::Approx(1.1));
    CHECK(d.result.step == doctest::Approx(0.8));
    // What loses by its kernels is compiled and timed once, and never as a whole step.
    const Strings both = {"s(a).compute_root()", "s(a).compute_root(); s(b).compute_with(c)"};
    CHECK(f.measurer.stepped == Strings{both[0], both[0], both[1], both[1]});
    f.measurer.stepped.clear(), f.measurer.calls_timed.clear();
    CHECK(f.run({}, lines).result.lines == d.result.lines);
    CHECK(f.measurer.stepped == Strings{both[0], both[0], both[1], both[1]});  // confirmed, not believed
    CHECK(f.measurer.calls_timed.empty());
}

TEST_CASE("search: a line that wins by its kernels and not as a whole step is not taken, nor one of other bits") {
    Fixture f;
    f.measurer.sums = {{"s(a).compute_root()", 0.5}};
    CHECK(f.run({}, {"s(a).compute_root()"}).result.lines.empty());
    CHECK(f.measurer.stepped == Strings{"s(a).compute_root()"});
    // A kernel that was timed once may seem faster or slower than it is: a small gain by the sum is looked at, too.
    Fixture small;
    small.measurer.sums = {{"s(a).compute_root()", 0.995}};
    small.measurer.steps = {{"s(a).compute_root()", 0.97}};
    CHECK(small.run({}, {"s(a).compute_root()"}).result.lines == Strings{"s(a).compute_root()"});
    Fixture exact;
    exact.same_bits = true;
    exact.measurer.steps = {{"s(a).compute_root()", 0.5}};
    exact.measurer.other_bits = {"s(a).compute_root()"};
    CHECK(exact.run({}, {"s(a).compute_root()"}).result.lines.empty());
    exact.same_bits = false;
    CHECK(exact.run({}, {"s(a).compute_root()"}).result.lines == Strings{"s(a).compute_root()"});
}

TEST_CASE("search: times of kernels are of one speed, whatever the machine's was when they were timed") {
    Fixture f;
    f.measurer.steps = {{"s(a).compute_root()", 1.2}};
    Done d = f.run({}, {});  // what the step takes as it is
    f.measurer.speed = 0.5;  // twice as fast, so that the line seems to win
    d = f.run({}, {"s(a).compute_root()"});
    CHECK(d.news.back().ratio == doctest::Approx(1.2));
    Fixture busy;
    busy.measurer.busy = true, busy.measurer.steps = {{"s(a).compute_root()", 0.5}};
    CHECK(busy.run({}, {"s(a).compute_root()"}).result.lines.empty());
    busy.measurer.busy = false;  // nothing of that was kept
    CHECK(busy.run({}, {"s(a).compute_root()"}).result.lines.size() == 1);
}

TEST_CASE("search: kept times that were taken while something else ran are replaced") {
    Fixture f;
    const auto sum = [&] {
        SearchRecords records(f.folder.path, {"a machine", 2});
        return seconds_of(records, f.measurer.step("").list);
    };
    f.measurer.speed = 3;
    f.run({}, {});
    CHECK(sum() == doctest::Approx(3));
    f.measurer.speed = 1;
    f.run({}, {});  // all times are known
    CHECK(sum() == doctest::Approx(3));
    f.step_seconds = 2.1;
    f.run({}, {});
    CHECK(sum() == doctest::Approx(3));
    f.step_seconds = 1;
    f.run({}, {});
    CHECK(sum() == doctest::Approx(1));
    f.measurer.calls_timed.clear();
    f.run({}, {});
    CHECK(f.measurer.calls_timed.empty());
}

TEST_CASE("search: what promises most comes first, a kernel far from its roofline or a line") {
    Fixture f;
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.steps = {{"s(a).compute_root()", 0.5}};
    f.measurer.predicted = 0.2;
    f.run({product()}, {"s(a).compute_root()"});
    CHECK(f.measurer.stepped.front() == "s(a).compute_root()");
    Fixture other;
    other.measurer.times = f.measurer.times, other.measurer.steps = f.measurer.steps;
    other.measurer.predicted = 0.79;
    other.run({product()}, {"s(a).compute_root()"});
    CHECK(other.measurer.stepped.front() == "loops(h.*.up, forward): rows=4");
}

TEST_CASE("search: of lines, those come first that gained this step most on other machines") {
    Fixture f;
    const auto elsewhere = [&](const std::string &step, const std::string &line, double ratio) {
        SearchRecords(f.folder.path, {"another machine", 2}).remember({"step", step + " ", line}, {.ratio = ratio});
    };
    elsewhere("a step", "s(b).compute_root()", 0.5);
    elsewhere("another step", "s(c).compute_root()", 0.1);
    const Done d = f.run({}, {"s(a).compute_root()", "s(c).compute_root()", "s(b).compute_root()"});
    Strings order;
    for (const SearchNews &n : d.news) order.push_back(n.of);
    CHECK(order == Strings{"s(b).compute_root()", "s(a).compute_root()", "s(c).compute_root()"});
    CHECK(d.news[0].predicted == doctest::Approx(1.1));  // by this machine's model
    CHECK(!d.news[0].known);
    CHECK(d.result.lines.empty());
}

TEST_CASE("search: loops of the kernels that a line makes may turn it, and are lines beside it") {
    SearchKernel fused = product();
    fused.symbol = "cryolite_9", fused.algorithm = "up and act", fused.share = 0.9, fused.roof = 0.1;
    Fixture f;
    const std::string line = "s(act).compute_with(up)", both = line + "; loops(h.*.up, forward): rows=4";
    f.measurer.kernels_of[line] = {fused};
    fused.numbers[1].value = 4;  // rows, as the line gives them
    f.measurer.kernels_of[both] = {fused};
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.steps = {{line, 1.02}, {both, 0.6}};
    const Done d = f.run({}, {line});
    CHECK(d.result.lines == Strings{line, "loops(h.*.up, forward): rows=4"});
    CHECK(d.result.lines_kept == 1);
    Fixture far;  // too slow for its loops to turn it
    far.measurer.kernels_of = f.measurer.kernels_of, far.measurer.times = f.measurer.times;
    far.measurer.steps = {{line, 1.5}, {both, 0.6}};
    CHECK(far.run({}, {line}).result.lines.empty());
    CHECK(far.measurer.made.empty());
}

TEST_CASE("search: after a line was taken, the loops of the kernels that the step then has are searched") {
    SearchKernel fused = product();
    fused.symbol = "cryolite_9", fused.algorithm = "up and act";
    Fixture f;
    const std::string line = "s(act).compute_with(up)";
    f.measurer.kernels_of[line] = {fused};
    f.measurer.times = {{"rows=4", 0.5}};
    f.measurer.steps = {{line, 0.8}, {line + "; loops(h.*.up, forward): rows=4", 0.5}};
    CHECK(f.run({}, {line}).result.lines == Strings{line, "loops(h.*.up, forward): rows=4"});
}

TEST_CASE("check model: predictions beside what lines change, those of large changes first") {
    Fixture f;
    f.measurer.proposed = {"s(a).compute_root()", "s(b).compute_root()", "s(c).compute_root()", "s(d).compute_root()"};
    f.measurer.refused_lines = {{"s(d).compute_root()", "it is stored"}};
    f.measurer.predicted = 0.9;  // and the kernels that all have, 0.2
    f.measurer.steps = {{"s(a).compute_root()", 1.12}, {"s(b).compute_root()", 1.01}, {"s(c).compute_root()", 0.9}};
    SearchRecords records(f.folder.path, {"a machine", 2});
    Strings told;
    const auto check = [&](int lines) {
        return check_model(
            f.measurer, records, lines, [] { return 1.0; }, [&](const CheckedLine &l) { told.push_back(l.line); });
    };
    const ModelCheck all = check(20);
    CHECK(told == Strings{"s(a).compute_root()", "s(b).compute_root()", "s(c).compute_root()"});
    CHECK(all.refused == 1);
    CHECK(all.counted() == 2);                     // one changes the step by a hundredth
    CHECK(all.right(&CheckedLine::model) == 1);    // 1.1 of all three
    CHECK(all.right(&CheckedLine::kernels) == 2);  // each as it was timed
    CHECK(all.lines[2].kernels == doctest::Approx(0.9));
    CHECK(check(1).lines.size() == 1);
    f.measurer.busy = true;
    CHECK_THROWS_WITH_AS(check(1), doctest::Contains("the machine is too busy to time a step"), Error);
}

TEST_CASE("check model: lines of loops are checked, those of kernels by which a line can count") {
    Fixture f;
    SearchKernel small = product();
    small.loops_of = {"small, forward"}, small.symbol = "cryolite_2", small.share = 0.02;
    SearchKernel automatic = product();
    automatic.loops_of = {"other, update"}, automatic.symbol = "cryolite_3";
    automatic.numbers = {{"automatic", 0, 0, {0, 1}, false}};
    f.measurer.kernels_of[""] = {product(), small, automatic};
    f.measurer.steps = {{"loops(h.*.up, forward): columns=16", 1.3}};
    SearchRecords records(f.folder.path, {"a machine", 2});
    std::set<std::string> told;
    const ModelCheck all = check_model(
        f.measurer, records, 20, [] { return 1.0; }, [&](const CheckedLine &l) { told.insert(l.line); });
    const std::string of = "loops(h.*.up, forward): ";
    CHECK(told ==
          std::set<std::string>{of + "columns=16", of + "rows=2", of + "parts=2"});  // the others are as they are
    CHECK(all.counted() == 1);
    CHECK(all.right(&CheckedLine::kernels) == 1);
}

TEST_CASE("check model: right is the sign, and within a third of the change") {
    CHECK(is_right(1.08, 1.06));
    CHECK(is_right(1.045, 1.06));
    CHECK(!is_right(1.03, 1.06));
    CHECK(!is_right(1.09, 1.06));
    CHECK(!is_right(0.98, 1.06));
    CHECK(is_right(0.92, 0.9));
    CHECK(!is_right(1, 0.9));
}

}  // namespace cryolite::test
