#include "apps/cryolite/tune/search.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "apps/cryolite/report/kernel_times.h"

namespace cryolite {

namespace {

constexpr double worth = 0.01;                     // a gain below that is the measurement's
const std::string automatic_number = "automatic";  // of any kernel: docs/tune.md

CandidateRecord record_of(const Timing &t) {
    if (t.refused.empty() && t.busy) return {.ratio = 1, .noise = 1};
    return {t.refused.empty() ? t.ratio() : 0, t.noise, t.same_bits, t.refused};
}

}  // namespace

std::string text_of(const LoopNumbers &numbers) {
    std::vector<std::string> words;
    for (const auto &[name, value] : numbers) words.push_back(fmt::format("{}={}", name, value));
    return fmt::format("{}", fmt::join(words, " "));
}

std::string joined(const std::vector<std::string> &lines) { return fmt::format("{}", fmt::join(lines, "; ")); }

std::vector<std::string> loop_lines(const SearchKernel &kernel, const LoopNumbers &numbers,
                                    const std::vector<SearchKernel> &all) {
    std::set<std::string> of_others;  // that have one of these numbers
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

Search::Search(Measurer &measurer, SearchRecords &records, SearchOptions options)
    : measurer_(measurer), records_(records), options_(std::move(options)) {}

bool Search::over() const { return options_.stopped() || options_.seconds_left() <= 0; }

void Search::tell(SearchNews news) const {
    news.step = result_.step;
    options_.tell(news);
}

bool Search::wins(const CandidateRecord &r) const {
    return r.refused.empty() && (r.same_bits || !options_.same_bits) && r.ratio < 1 - std::max(worth, r.noise);
}

const SearchResult &Search::run(std::vector<SearchKernel> kernels, std::vector<std::string> moves) {
    std::ranges::stable_sort(kernels, [](const auto &a, const auto &b) { return a.share > b.share; });
    for (const SearchKernel &k : kernels)
        if (!over()) kernel(k, kernels, numbers_of(k, options_.from_scratch));
    std::set<std::string> seen;
    for (size_t i = 0; i < moves.size() && !over(); i++) {
        const std::string line = moves[i];
        if (seen.insert(line).second) move(line, moves);
    }
    for (const SearchKernel &k : kernels)
        if (!over() && !options_.from_scratch) kernel(k, kernels, numbers_of(k, true));
    return result_;
}

/// Those of the loops that were written; or the one that names automatic loops instead.
std::vector<LoopNumber> Search::numbers_of(const SearchKernel &k, bool automatic) const {
    std::vector<LoopNumber> numbers = k.numbers;
    std::erase_if(numbers, [&](const LoopNumber &n) {
        return (n.name == automatic_number) != automatic || (options_.same_bits && !n.same_order);
    });
    return numbers;
}

/// All that differ from it in this number. Rows belong to a width of tiles: they are as usual with another.
std::vector<LoopNumbers> Search::neighbours(const SearchKernel &k, const LoopNumbers &from,
                                            const LoopNumber &of) const {
    std::vector<LoopNumbers> list;
    const auto at = from.find(of.name);
    const int now = at == from.end() ? of.usual : at->second;
    for (int value : of.legal) {
        if (value == now) continue;
        LoopNumbers numbers = of.name == automatic_number ? LoopNumbers() : from;  // automatic loops have no others
        if (of.name == "columns") numbers.erase("rows");
        numbers[of.name] = value;
        for (const LoopNumber &n : k.numbers)
            if (auto same = numbers.find(n.name); same != numbers.end() && same->second == n.usual) numbers.erase(same);
        list.push_back(numbers);
    }
    return list;
}

void Search::kernel(const SearchKernel &k, const std::vector<SearchKernel> &all,
                    const std::vector<LoopNumber> &numbers) {
    if (numbers.empty()) return;
    const LoopNumbers before = found_[k.symbol];
    std::vector<MadeKernel> usual = measurer_.make(k, {text_of(before)});
    SearchNews news{
        .what = SearchNews::of_candidate, .of = k.name, .share = k.share, .roof = k.roof, .roof_now = k.roof};
    LoopNumbers best = before;
    double gain = 1;
    if (!usual.at(0).refused.empty()) {
        news.what = SearchNews::of_kernel, news.refused = usual[0].refused;
        return tell(news);
    }
    MadeKernel incumbent = usual[0];
    std::set<std::string> seen = {text_of(before)};  // what lost against an incumbent loses against a faster one
    bool improved = true;
    for (int round = 0; round < 2 && improved; round++) {
        improved = false;
        for (size_t n = 0; n < numbers.size() && !over(); n++) {
            std::vector<LoopNumbers> candidates = neighbours(k, best, numbers[n]);
            std::erase_if(candidates, [&](const LoopNumbers &c) { return !seen.insert(text_of(c)).second; });
            news.left = int(candidates.size());
            for (size_t m = n + 1; m < numbers.size(); m++) news.left += int(numbers[m].legal.size()) - 1;
            std::vector<Trial> trials = try_all(k, incumbent, candidates, news);
            std::ranges::sort(trials, {}, [](const Trial &t) { return t.record.ratio; });
            const auto winner = std::ranges::find_if(trials, [&](const Trial &t) { return wins(t.record); });
            if (winner == trials.end() || over() || !wins_again(k, incumbent, *winner)) continue;
            gain *= winner->record.ratio, news.roof_now = k.roof / gain, best = winner->numbers,
                                          incumbent = winner->made, improved = true;
        }
    }
    news.what = SearchNews::of_kernel, news.ratio = gain, news.candidate = text_of(best), news.left = 0;
    news.taken = best != before && take_lines(loop_lines(k, best, all), loop_lines(k, before, all));
    if (news.taken) found_[k.symbol] = best;
    tell(news);
}

std::vector<Search::Trial> Search::try_all(const SearchKernel &k, const MadeKernel &incumbent,
                                           const std::vector<LoopNumbers> &candidates, SearchNews &news) {
    auto key = [&](const LoopNumbers &n) { return CandidateKey{k.algorithm, incumbent.symbol, text_of(n)}; };
    std::vector<Trial> trials;
    std::vector<std::string> unknown;
    for (const LoopNumbers &n : candidates) {
        const std::optional<CandidateRecord> known = records_.find(key(n));
        trials.push_back({n, {}, known.value_or(CandidateRecord{})});
        // One that may win is compiled in any case: it is timed again.
        if (!known || wins(*known)) unknown.push_back(text_of(n));
    }
    const std::vector<MadeKernel> made = unknown.empty() ? std::vector<MadeKernel>() : measurer_.make(k, unknown);
    for (Trial &t : trials) {
        if (over()) return t.record = {}, std::vector<Trial>(trials.begin(), trials.begin() + (&t - trials.data()));
        const std::string text = text_of(t.numbers);
        const auto at = std::ranges::find(unknown, text);
        news.known = t.record.ratio > 0 || !t.record.refused.empty();
        if (at != unknown.end()) t.made = made.at(size_t(at - unknown.begin()));
        if (!news.known) {
            Timing timing{.before = 1, .after = 1, .same_bits = true, .refused = t.made.refused};
            if (t.made.refused.empty() && t.made.symbol != incumbent.symbol)  // else its number changes nothing here
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
        tell(news);
    }
    return trials;
}

/// A second time, by a measurement of its own.
bool Search::wins_again(const SearchKernel &k, const MadeKernel &incumbent, const Trial &t) {
    const CandidateRecord again = record_of(measurer_.time_kernel(k, incumbent, t.made));
    if (!again.refused.empty()) records_.remember({k.algorithm, incumbent.symbol, text_of(t.numbers)}, again);
    return wins(again);
}

/// What is faster by itself is kept where the whole step is not slower with it.
bool Search::take_lines(const std::vector<std::string> &lines, const std::vector<std::string> &instead_of) {
    std::vector<std::string> with = result_.lines;
    std::erase_if(with, [&](const std::string &line) { return std::ranges::count(instead_of, line) > 0; });
    with.insert(with.end(), lines.begin(), lines.end());
    const Timing t = measurer_.time_step(joined(result_.lines), joined(with));
    const bool bits = t.same_bits || !options_.same_bits;
    if (!t.refused.empty() || t.busy || !bits || t.ratio() > 1 + t.noise) return false;
    result_.lines = with, result_.step *= t.ratio();
    return true;
}

void Search::move(const std::string &line, std::vector<std::string> &more) {
    const std::string before = joined(result_.lines);
    const CandidateKey key{"step", options_.step + " " + before, line};
    SearchNews news{.what = SearchNews::of_line, .of = line};
    std::optional<CandidateRecord> known = records_.find(key);
    news.known = known.has_value();
    std::vector<std::string> with = result_.lines;
    with.push_back(line);
    CandidateRecord r = known.value_or(CandidateRecord{});
    if (!known) {
        const Timing t = measurer_.time_step(before, joined(with));
        r = record_of(t);
        if (!t.busy) records_.remember(key, r);
    }
    result_.candidates++, result_.known += news.known, result_.refused += !r.refused.empty();
    if (wins(r) && !over()) {
        const CandidateRecord again = record_of(measurer_.time_step(before, joined(with)));
        news.taken = wins(again);
        if (news.taken) result_.lines = with, result_.step *= again.ratio;
    }
    // What is refused names the line that is legal and nearest.
    constexpr std::string_view nearest = "the nearest legal line is ";
    if (const size_t at = r.refused.rfind(nearest); at != std::string::npos) {
        const std::string text = r.refused.substr(at + nearest.size());
        more.push_back(text.substr(0, text.find_first_of("\n;")));
    }
    news.ratio = r.ratio, news.refused = r.refused;
    tell(news);
}

}  // namespace cryolite
