// The loops of one kernel after another.

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/cryolite/tune/search.h"
#include "bundle/block_names.h"

namespace cryolite {

namespace {

/// How many candidates there are that change one number.
int candidates_of(std::span<const LoopNumber> numbers) {
    int count = 0;
    for (const LoopNumber &n : numbers) count += int(n.legal.size()) - 1;
    return count;
}

/// The ratio of their times, predicted from what their inner loops allow; 0: that is not known.
double predicted_ratio(const MadeKernel &before, const MadeKernel &after) {
    return before.limit > 0 && after.limit > 0 ? before.limit / after.limit : 0;
}

}  // namespace

std::string name_of(const SearchKernel &k) { return k.algorithm + " " + k.loops_of.front(); }

std::vector<std::string> loop_lines(const SearchKernel &kernel, const LoopNumbers &numbers,
                                    const std::vector<SearchKernel> &all) {
    std::set<std::string> of_others;  // stages of other kernels that have one of these numbers
    for (const SearchKernel &k : all)
        if (k.symbol != kernel.symbol &&
            std::ranges::any_of(k.numbers, [&](const LoopNumber &n) { return numbers.count(n.name) > 0; }))
            for (const std::string &name : k.loops_of) of_others.insert(without_numbers(name));
    std::vector<std::string> lines;
    if (numbers.empty()) return lines;
    for (const std::string &name : kernel.loops_of) {
        const std::string pattern = without_numbers(name), line = of_others.count(pattern) ? name : pattern;
        const std::string text = fmt::format("loops({}): {}", line, text_of(numbers));
        if (std::ranges::find(lines, text) == lines.end()) lines.push_back(text);
    }
    return lines;
}

/// Of the kernels that were not searched yet, the one that promises most; null: there is none.
const SearchKernel *Search::next_kernel() const {
    const SearchKernel *best = nullptr;
    for (const SearchKernel &k : kernels_)
        if (!searched_.count(name_of(k)) && (!best || promise(k) > promise(*best))) best = &k;
    return best;
}

/// The candidates of kernels that were not searched yet, and the lines that wait.
int Search::candidates_left() const {
    int count = int(open_.size());
    for (const SearchKernel &k : kernels_)
        if (!searched_.count(name_of(k))) count += outlook(k).candidates;
    return count;
}

/// The expected gain by other loops: half of the time that the kernel takes beyond its roofline.
Search::Outlook Search::outlook(const SearchKernel &k) const {
    return {0.5 * k.share * std::clamp(1 - k.roof, 0.0, 1.0), candidates_of(first_numbers(k))};
}
/// The expected gain for each candidate that has to be tried.
double Search::promise(const SearchKernel &k) const {
    const Outlook o = outlook(k);
    return o.gain / std::max(1, o.candidates);
}

/// The numbers of the kernel's loops or, unless `automatic` is none, the number that chooses automatic loops instead.
std::vector<LoopNumber> Search::numbers_of(const SearchKernel &k, Automatic automatic) const {
    std::vector<LoopNumber> numbers = k.numbers;
    std::erase_if(numbers, [&](const LoopNumber &n) {
        return (n.name == automatic_number) != (automatic != Automatic::none) || (options_.same_bits && !n.same_order);
    });
    for (LoopNumber &n : numbers)
        if (automatic == Automatic::soon || automatic == Automatic::late)
            std::erase_if(n.legal, [&](int v) {
                const bool late = std::ranges::count(late_automatic, v) > 0;
                return v != n.value && late != (automatic == Automatic::late);
            });
    return numbers;
}

/// The numbers that the search has found for the kernel, or else those that lines of the program or of a file set.
LoopNumbers Search::numbers_now(const SearchKernel &k) const {
    if (const auto at = found_.find(name_of(k)); at != found_.end()) return at->second.numbers;
    LoopNumbers numbers;
    for (const LoopNumber &n : k.numbers)
        if (n.value != n.usual) numbers[n.name] = n.value;
    return numbers;
}

/// All candidates that differ from `from` in the number `of`. The best rows depend on the columns: with other columns,
/// rows are as usual, unless a line sets them. To make a number usual that a line sets, the candidate has to name it.
std::vector<LoopNumbers> Search::neighbours(const SearchKernel &k, const LoopNumbers &from,
                                            const LoopNumber &of) const {
    std::vector<LoopNumbers> list;
    const auto at = from.find(of.name);
    const int now = at == from.end() ? of.value : at->second;
    const auto given = [&](const std::string &name) {
        return std::ranges::any_of(k.numbers,
                                   [&](const LoopNumber &n) { return n.name == name && n.value != n.usual; });
    };
    for (int value : of.legal) {
        if (value == now) continue;
        LoopNumbers numbers = of.name == automatic_number ? LoopNumbers() : from;  // automatic loops have no others
        if (of.name == "columns" && !given("rows")) numbers.erase("rows");
        numbers[of.name] = value;
        for (const LoopNumber &n : k.numbers)
            if (auto same = numbers.find(n.name); same != numbers.end() && same->second == n.usual && !given(n.name))
                numbers.erase(same);
        list.push_back(numbers);
    }
    return list;
}

void Search::kernel(const SearchKernel &k, const std::vector<LoopNumber> &numbers) {
    searched_.insert(name_of(k));
    if (numbers.empty()) return;
    SearchNews news{
        .what = SearchNews::of_candidate, .of = k.name, .share = k.share, .roof = k.roof, .roof_now = k.roof};
    const LoopNumbers before = numbers_now(k);
    Loops best = best_loops(k, numbers, news);
    news.what = SearchNews::of_kernel, news.left = 0;
    if (!news.refused.empty()) return tell(news);
    news.ratio = best.ratio, news.candidate = best.numbers == before ? "" : text_of(best.numbers);
    best.lines = loop_lines(k, best.numbers, kernels_);
    Loops &found = found_.try_emplace(name_of(k), Loops{.numbers = before}).first->second;
    news.taken = best.numbers != before && take_loops(best, found, news.refused);
    if (news.taken) found = best, news.unsure = best.unsure, options_.keep(result_);
    tell(news);
    if (news.taken) learn(joined(result_.lines), step_);
    if (news.taken && best.numbers.count(automatic_number) && !over()) new_numbers(name_of(k));
}

/// Automatic loops may have numbers of their own, which the kernel did not have before.
void Search::new_numbers(const std::string &name) {
    for (const SearchKernel &k : measurer_.kernels(joined(result_.lines)))
        if (name_of(k) == name) return kernel(k, numbers_of(k, Automatic::none));
}

/// Searches from the numbers that the kernel has now. `news.refused`: why it cannot be compiled with these.
Search::Loops Search::best_loops(const SearchKernel &k, const std::vector<LoopNumber> &numbers, SearchNews &news) {
    Loops best{.numbers = numbers_now(k)};
    std::vector<MadeKernel> now = measurer_.make(k, {text_of(best.numbers)}, [](size_t, const MadeKernel &) {});
    news.refused = now.at(0).refused;
    if (!news.refused.empty()) return best;
    MadeKernel incumbent = now[0];
    std::set<std::string> seen = {text_of(best.numbers)};  // what lost against an incumbent loses against a faster one
    bool improved = true;
    for (int round = 0; round < 2 && improved; round++) {
        improved = false;
        for (size_t n = 0; n < numbers.size() && !over(); n++) {
            std::vector<LoopNumbers> candidates = neighbours(k, best.numbers, numbers[n]);
            std::erase_if(candidates, [&](const LoopNumbers &c) { return !seen.insert(text_of(c)).second; });
            news.left = int(candidates.size()) + candidates_of(std::span(numbers).subspan(n + 1));
            std::vector<Trial> trials = try_all(k, incumbent, candidates, news);
            std::ranges::sort(trials, {}, [](const Trial &t) { return t.record.ratio; });
            const auto winner = std::ranges::find_if(trials, [&](const Trial &t) { return wins(t.record); });
            if (winner == trials.end()) continue;
            if (over() || !wins_again(k, incumbent, *winner)) {
                news.unconfirmed =
                    fmt::format("{} ({:.3f} of the time)", text_of(winner->numbers), winner->record.ratio);
                continue;
            }
            best.ratio *= winner->record.ratio, news.roof_now = k.roof / best.ratio, best.numbers = winner->numbers,
                                                incumbent = winner->made, best.unsure = incumbent.unsure,
                                                improved = true;
        }
    }
    news.refused.clear(), news.unsure.clear();
    return best;
}

/// Sorts by the ratios on other machines, or else by those that the inner loops predict; those that were refused
/// elsewhere come last. The time may end before all are tried.
void Search::sort_by_promise(const SearchKernel &k, const MadeKernel &incumbent, std::vector<Trial> &trials) const {
    std::map<std::string, double> rank;
    for (const Trial &t : trials) {
        const std::string text = text_of(t.numbers);
        const SearchRecords::Elsewhere e = records_.elsewhere(k.algorithm, text);
        const double predicted = predicted_ratio(incumbent, t.made);
        rank[text] = e.ratio.value_or(e.refused ? INFINITY : predicted > 0 ? predicted : 1);
    }
    std::ranges::stable_sort(trials, {}, [&](const Trial &t) { return rank.at(text_of(t.numbers)); });
}

std::vector<Search::Trial> Search::try_all(const SearchKernel &k, const MadeKernel &incumbent,
                                           const std::vector<LoopNumbers> &candidates, SearchNews &news) {
    auto key = [&](const LoopNumbers &n) { return CandidateKey{k.algorithm, incumbent.symbol, text_of(n)}; };
    std::vector<Trial> trials;
    std::vector<std::string> unknown;
    for (const LoopNumbers &n : candidates) {
        const std::optional<CandidateRecord> known = records_.find(key(n));
        trials.push_back({n, {}, known.value_or(CandidateRecord{})});
        // A known winner is compiled, too, as it is timed again.
        if (!known || wins(*known)) unknown.push_back(text_of(n));
    }
    // Refusals are recorded before the other candidates are timed.
    const auto keep_refused = [&](size_t i, const MadeKernel &m) {
        if (!m.refused.empty())
            records_.remember({k.algorithm, incumbent.symbol, unknown.at(i)}, {.ratio = 0, .refused = m.refused});
    };
    std::vector<MadeKernel> made;
    if (!unknown.empty()) made = measurer_.make(k, unknown, keep_refused);
    for (Trial &t : trials)
        if (const auto at = std::ranges::find(unknown, text_of(t.numbers)); at != unknown.end())
            t.made = made.at(size_t(at - unknown.begin()));
    sort_by_promise(k, incumbent, trials);
    for (Trial &t : trials) {
        if (over()) return t.record = {}, std::vector<Trial>(trials.begin(), trials.begin() + (&t - trials.data()));
        const std::string text = text_of(t.numbers);
        news.known = t.record.ratio > 0 || !t.record.refused.empty();
        news.predicted = predicted_ratio(incumbent, t.made);
        if (!news.known) {
            Timing timing{.before = 1, .after = 1, .same_bits = true, .refused = t.made.refused};
            if (t.made.refused.empty() && t.made.symbol != incumbent.symbol)  // else the number changes nothing here
                timing = measurer_.time_kernel(k, incumbent, t.made);
            t.record = record_of(timing);
            if (!timing.busy) records_.remember(key(t.numbers), t.record);
        } else {
            result_.known++;
            if (!t.made.refused.empty()) t.record.refused = t.made.refused;
        }
        result_.candidates++, news.tried++, news.left = std::max(0, news.left - 1);
        const bool refused = !t.record.refused.empty();
        result_.refused += refused, news.refusals += refused;
        news.candidate = text, news.ratio = t.record.ratio, news.refused = t.record.refused;
        news.unsure = t.made.unsure, result_.unsure += !t.made.unsure.empty();
        tell(news);
    }
    return trials;
}

/// Whether it wins in a second measurement, too.
bool Search::wins_again(const SearchKernel &k, const MadeKernel &incumbent, const Trial &t) {
    const CandidateRecord again = record_of(measurer_.time_kernel(k, incumbent, t.made));
    if (!again.refused.empty()) records_.remember({k.algorithm, incumbent.symbol, text_of(t.numbers)}, again);
    return wins(again);
}

/// Takes loops that are faster in their kernel, unless the whole step is slower with them. Returns whether it did.
/// `refused`: why the step with them must not be taken.
bool Search::take_loops(const Loops &loops, const Loops &instead_of, std::string &refused) {
    std::vector<std::string> with = result_.lines;
    std::erase_if(with, [&](const std::string &line) { return std::ranges::count(instead_of.lines, line) > 0; });
    with.insert(with.end(), loops.lines.begin(), loops.lines.end());
    const Timing t = measurer_.time_step(joined(result_.lines), joined(with));
    const bool bits = t.same_bits || !options_.same_bits;
    refused = t.refused;
    if (!t.refused.empty() || t.busy || !bits || t.ratio() > 1 + t.noise) return false;
    result_.lines = with, result_.step *= t.ratio();
    return true;
}

}  // namespace cryolite
