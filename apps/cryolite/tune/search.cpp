#include "apps/cryolite/tune/search.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr double worth = 0.01;  // a smaller gain may be an error of the measurement

std::optional<double> find(const CallTimes &times, const std::string &kernel) {
    const auto at = times.seconds.find(kernel);
    return at == times.seconds.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace

CandidateRecord record_of(const Timing &t) {
    if (t.refused.empty() && t.busy) return {.ratio = 1, .noise = 1};
    return {t.refused.empty() ? t.ratio() : 0, t.noise, t.same_bits, t.refused};
}

std::string text_of(const LoopNumbers &numbers) {
    std::vector<std::string> words;
    for (const auto &[name, value] : numbers) words.push_back(fmt::format("{}={}", name, value));
    return fmt::format("{}", fmt::join(words, " "));
}

std::string joined(const std::vector<std::string> &lines) { return fmt::format("{}", fmt::join(lines, "; ")); }

double median(std::vector<double> list) {
    std::ranges::sort(list);
    return list.empty() ? 0 : list[list.size() / 2];
}

namespace {

/// How many times as long a kernel may take at another clock of the same machine.
constexpr double slowest_clock = 1.5;

}  // namespace

void remember_times(SearchRecords &records, const std::vector<StepKernel> &kernels, const CallTimes &times) {
    double then = 0, now = 0;
    bool all_known = true;
    for (const StepKernel &k : kernels) {
        const auto known = records.time_of(k.key), timed = find(times, k.key);
        all_known &= known.has_value();
        if (known && timed) then += k.calls * *known, now += k.calls * *timed;
    }
    // No clock differs that much: something else ran on the machine when the known times were taken.
    const bool disturbed = all_known && then > slowest_clock * now;
    const double speed = now > 0 && !disturbed ? then / now : 1;
    for (const StepKernel &k : kernels)
        if (const auto timed = find(times, k.key); timed && (disturbed || !records.time_of(k.key)))
            records.remember_time(k.key, *timed * speed);
}

double seconds_of(const SearchRecords &records, const std::vector<StepKernel> &kernels) {
    double seconds = 0;
    for (const StepKernel &k : kernels) seconds += k.calls * records.time_of(k.key).value_or(k.predicted);
    return seconds;
}

Search::Search(Measurer &measurer, SearchRecords &records, SearchOptions options)
    : measurer_(measurer), records_(records), options_(std::move(options)) {
    if (!options_.keep) options_.keep = [](const SearchResult &) {};
}

bool Search::over() const { return options_.stopped() || options_.seconds_left() <= 0; }

void Search::tell(SearchNews news) const {
    news.step = result_.step, news.kept = result_.lines_kept;
    if (news.what != SearchNews::of_candidate) news.left = candidates_left();
    if (news.what == SearchNews::of_line) news.tried = result_.lines_tried, news.refusals = result_.lines_refused;
    options_.tell(news);
}

bool Search::wins(const CandidateRecord &r) const {
    return r.refused.empty() && (r.same_bits || !options_.same_bits) && r.ratio < 1 - std::max(worth, r.noise);
}

std::string Search::why_not(const CandidateRecord &r) const {
    if (!r.refused.empty() || r.ratio >= 1) return "";
    if (options_.same_bits && !r.same_bits) return "it changes bits of the training";
    if (wins(r)) return "the search was stopped";
    return fmt::format("its gain is within the noise of {:.3f}", std::max(worth, r.noise));
}

const SearchResult &Search::run(double step_seconds) {
    whole_ = step_seconds;
    if (!over()) look(), propose();
    while (!over()) {
        const SearchKernel *k = next_kernel();
        const auto o = std::ranges::max_element(open_, {}, &Open::promise);
        if (k && (o == open_.end() || promise(*k) >= o->promise)) {
            const SearchKernel next = *k;
            kernel(next, first_numbers(next));
        } else if (o != open_.end()) {
            const Open next = *o;
            open_.erase(o);
            next.with_loops ? line_with_loops(next) : line(next);
        } else {
            break;
        }
    }
    const std::vector<SearchKernel> all = kernels_;
    for (const SearchKernel &k : all)
        if (!over()) kernel(k, numbers_of(k, options_.from_scratch ? Automatic::late : Automatic::all));
    return result_;
}

/// Times the kernels of the best step so far, and lists those with numbers.
void Search::look() {
    const std::string lines = joined(result_.lines);
    if (const std::string why = learn(lines, step_); !why.empty()) fail("the step could not be timed: {}", why);
    kernels_ = measurer_.kernels(lines);
    std::ranges::stable_sort(kernels_, std::ranges::greater{}, &SearchKernel::share);
}

/// Finds the kernels of a step, and times those that were never timed. Returns why the step is refused; empty: it is
/// not.
std::string Search::learn(const std::string &lines, std::vector<StepKernel> &kernels) {
    StepKernels found = measurer_.step(lines);
    if (!found.refused.empty()) return found.refused;
    kernels = std::move(found.list);
    const bool known =
        std::ranges::all_of(kernels, [&](const StepKernel &k) { return records_.time_of(k.key).has_value(); });
    const bool disturbed =
        whole_ > 0 && lines.empty() && cryolite::seconds_of(records_, kernels) > slowest_clock * whole_;
    if (known && !disturbed) return "";
    const CallTimes times = measurer_.time_calls(lines);
    if (!times.refused.empty()) return times.refused;
    remember_times(records_, kernels, times);
    return "";
}

}  // namespace cryolite
