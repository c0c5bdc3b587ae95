// The search itself, with a stand-in for what compiles and times.

#include "apps/cryolite/tune/check_model.h"

#include <algorithm>
#include <set>

#include "runtime/io/process.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using Strings = std::vector<std::string>;

/// Kernels whose time is a function of their numbers; what some do is told by their text.
class StandIn : public Measurer {
public:
    std::map<std::string, double> times;                          ///< of a kernel with these numbers; 1: not here
    std::map<std::string, std::string> wrong;                     ///< why one is refused, when it is made or run
    std::set<std::string> other_bits, lucky;                      ///< lucky: fast once
    bool busy = false;                                            ///< the machine
    std::map<std::string, double> steps;                          ///< of lines, as a whole
    std::map<std::string, std::vector<SearchKernel>> kernels_of;  ///< with numbers, of a step with these lines
    Strings proposed;                                             ///< lines
    std::map<std::string, std::string> refused_lines;
    std::map<std::string, double> sums;  ///< of a step with these lines, of its kernels; else that of `steps`
    double predicted = 0.9;              ///< of any line
    double speed = 1;                    ///< of the machine, when kernels are timed
    Strings made, timed, stepped, calls_timed;
    std::function<void()> before_timing = [] {};

    std::vector<SearchKernel> kernels(const std::string &lines) override {
        const auto at = kernels_of.find(lines);
        return at != kernels_of.end() ? at->second : kernels_of[""];
    }
    /// One that all steps have, and one that is of these lines alone.
    StepKernels step(const std::string &lines) override {
        return {{{.key = "a step of " + lines, .calls = 1, .predicted = predicted}, {.key = "of all", .calls = 2}}, ""};
    }
    std::vector<LineMove> moves(const std::string &lines, const std::set<std::string> &without, double) override {
        std::vector<LineMove> list;
        for (const std::string &l : proposed)
            if (!without.count(l))
                list.push_back({l, refused_lines.count(l) ? refused_lines.at(l) : "",
                                step(lines.empty() ? l : lines + "; " + l).list});
        return list;
    }
    CallTimes time_calls(const std::string &lines) override {
        calls_timed.push_back(lines);
        if (busy) return {};
        const double all = sums.count(lines) ? sums.at(lines) : of_lines(lines);
        return {{{"a step of " + lines, (all - 0.2) * speed}, {"of all", 0.1 * speed}}, ""};
    }

    std::vector<MadeKernel> make(const SearchKernel &k, const std::vector<std::string> &numbers) override {
        std::vector<MadeKernel> list;
        for (const std::string &n : numbers) {
            made.push_back(n);
            const bool dies = wrong.count(n) && wrong.at(n).starts_with("compiler");
            list.push_back({"folder", k.symbol + " " + n, dies ? wrong.at(n) : ""});
        }
        return list;
    }
    Timing time_kernel(const SearchKernel &, const MadeKernel &before, const MadeKernel &after) override {
        before_timing();
        auto numbers = [](const MadeKernel &m) { return m.symbol.substr(m.symbol.find(' ') + 1); };
        const std::string n = numbers(after);
        timed.push_back(n);
        Timing t{.before = of(numbers(before)), .after = of(n), .noise = 0.02, .same_bits = !other_bits.count(n)};
        if (lucky.erase(n)) t.after /= 2;
        t.busy = busy;
        if (wrong.count(n)) t.refused = wrong.at(n);
        return t;
    }
    Timing time_step(const std::string &before, const std::string &after) override {
        stepped.push_back(after);
        Timing t{.before = of_lines(before),
                 .after = of_lines(after),
                 .noise = 0.01,
                 .same_bits = !other_bits.count(after),
                 .busy = busy};
        return t;
    }

private:
    double of_lines(const std::string &l) const { return steps.count(l) ? steps.at(l) : 1.0; }
    double of(const std::string &numbers) const { return times.count(numbers) ? times.at(numbers) : 1.0; }
};

SearchKernel product() {
    return {.name = "h.0.up",
            .symbol = "cryolite_1",
            .algorithm = "product",
            .loops_of = {"h.0.up, forward", "h.1.up, forward"},
            .numbers = {{"columns", 48, 48, {16, 48}, true},
                        {"rows", 8, 8, {2, 4, 6, 8}, true},
                        {"parts", 4, 4, {2, 4}, false}},
            .share = 0.5,
            .roof = 0.3};
}

struct Done {
    SearchResult result;
    std::vector<SearchNews> news;
    const SearchNews &of(const std::string &candidate) const {
        return *std::ranges::find(news, candidate, &SearchNews::candidate);
    }
};

struct Fixture {
    Scratch folder;
    StandIn measurer;
    bool same_bits = false, from_scratch = false;
    double left = 1e9;
    bool stopped = false;
    Done run(std::vector<SearchKernel> kernels = {product()}, Strings moves = {}) {
        measurer.kernels_of[""] = std::move(kernels), measurer.proposed = std::move(moves);
        SearchRecords records(folder.path, {"a machine", 2});
        Done done;
        Search search(measurer, records,
                      {.same_bits = same_bits,
                       .from_scratch = from_scratch,
                       .step = "a step",
                       .seconds_left = [this] { return left -= 1; },
                       .stopped = [this] { return stopped; },
                       .tell = [&](const SearchNews &n) { done.news.push_back(n); }});
        try {
            search.run();
        } catch (const Interrupted &) {
        }
        done.result = search.result();
        return done;
    }
};

}  // namespace

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

TEST_CASE("search: from scratch, automatic loops are all that there is") {
    Fixture f;
    f.from_scratch = true;
    SearchKernel k = product();
    k.numbers = {{"automatic", 0, 0, {0, 1, 2}, false}};
    f.measurer.times = {{"automatic=1", 0.7}};
    CHECK(f.run({k}).result.lines == Strings{"loops(h.*.up, forward): automatic=1"});
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
