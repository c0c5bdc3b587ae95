#pragma once
// The search with a stand-in for what compiles and times.

#include <algorithm>
#include <set>

#include "apps/cryolite/tune/search.h"
#include "runtime/system/process.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

using Strings = std::vector<std::string>;

/// Kernels whose time is a function of their numbers; what some do is told by their text.
class StandIn : public Measurer {
public:
    std::map<std::string, double> times;       ///< of a kernel with these numbers; 1: not here
    std::map<std::string, std::string> wrong;  ///< why one, or a step, is refused, when it is made or run
    std::set<std::string> other_bits, lucky;   ///< lucky: fast once
    std::map<std::string, double> limits;      ///< of inner loops; none: not known
    std::string unsure;                        ///< of all kernels
    bool busy = false;                         ///< the machine
    std::map<std::string, double> steps;       ///< of lines, as a whole
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

    std::vector<MadeKernel> make(const SearchKernel &k, const std::vector<std::string> &numbers,
                                 const Made &tell) override {
        std::vector<MadeKernel> list;
        for (const std::string &n : numbers) {
            made.push_back(n);
            const bool dies = wrong.count(n) && wrong.at(n).starts_with("compiler");
            list.push_back(
                {"folder", k.symbol + " " + n, dies ? wrong.at(n) : "", unsure, limits.count(n) ? limits.at(n) : 0});
            tell(list.size() - 1, list.back());
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
                 .busy = busy,
                 .refused = wrong.count(after) ? wrong.at(after) : ""};
        return t;
    }

private:
    double of_lines(const std::string &l) const { return steps.count(l) ? steps.at(l) : 1.0; }
    double of(const std::string &numbers) const { return times.count(numbers) ? times.at(numbers) : 1.0; }
};

inline SearchKernel product() {
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
    double left = 1e9, step_seconds = 0;
    bool stopped = false;
    std::vector<SearchResult> kept;  ///< what was found so far, each time
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
                       .tell = [&](const SearchNews &n) { done.news.push_back(n); },
                       .keep = [&](const SearchResult &r) { kept.push_back(r); }});
        try {
            search.run(step_seconds);
        } catch (const Interrupted &) {
        }
        done.result = search.result();
        return done;
    }
};

}  // namespace cryolite::test
