// Lines of the step schedule, by the sum of the times of the kernels that the step has with each.

#include <algorithm>

#include "apps/cryolite/tune/search.h"

namespace cryolite {

namespace {

constexpr double candidates_of_line = 4;  // in candidates of loops: its kernels are compiled, and the step is timed
constexpr double share_of_time = 0.2;     // of the time left, at most, to judge which lines are legal
constexpr double near = 1.05;             // if the step with a line takes longer, no loops are searched for it

std::vector<std::string> beside(std::vector<std::string> lines, const std::string &line) {
    lines.push_back(line);
    return lines;
}

}  // namespace

/// Adds legal lines to those that wait. Their order is that of their ratios for this step on other machines, or else of
/// the cost model. A line that changes no kernel is left out. Lines that wait already keep their promise: they change
/// the step by about as much, whatever was taken meanwhile.
void Search::propose() {
    const double now = seconds_of(step_);
    std::set<std::string> without = tried_;
    for (const Open &o : open_) without.insert(o.line);
    for (LineMove &m : measurer_.moves(joined(result_.lines), without, share_of_time * options_.seconds_left())) {
        const double predicted = now > 0 ? seconds_of(m.kernels) / now : 1;
        if (m.refused.empty() && m.kernels != step_) {
            const double order = records_.elsewhere("step", m.line, options_.step + " ").ratio.value_or(predicted);
            open_.push_back({m.line, predicted, false, (1 - order) / candidates_of_line});
        }
        if (m.refused.empty()) continue;
        tried_.insert(m.line);
        result_.candidates++, result_.refused++, result_.lines_tried++, result_.lines_refused++;
        tell({.what = SearchNews::of_line, .of = m.line, .refused = m.refused});
    }
}

/// Judges lines by the sum of their kernels' times, beside the best step so far; none if the machine was too busy to
/// time them.
std::optional<CandidateRecord> Search::by_kernels(const std::vector<std::string> &lines) {
    std::vector<StepKernel> kernels;
    const std::string refused = learn(joined(lines), kernels);
    if (!refused.empty()) return CandidateRecord{.refused = refused};
    if (std::ranges::any_of(kernels, [&](const StepKernel &k) { return !records_.time_of(k.key); }))
        return std::nullopt;
    const double now = seconds_of(step_);
    return CandidateRecord{.ratio = now > 0 ? seconds_of(kernels) / now : 1, .noise = 0, .same_bits = true};
}

void Search::line(const Open &o) {
    tried_.insert(o.line);
    const CandidateKey key{"step", options_.step + " " + joined(result_.lines), o.line};
    const std::optional<CandidateRecord> known = records_.find(key);
    const std::vector<std::string> lines = beside(result_.lines, o.line);
    const std::optional<CandidateRecord> r = known ? known : by_kernels(lines);
    const bool taken = judge(o, lines, r, key, known.has_value());
    if (!taken && r && r->refused.empty() && r->ratio < near && !over()) may_turn(o, lines, r->ratio);
}

/// Searches the loops of the kernels that the line brings, and judges it again with them.
void Search::line_with_loops(const Open &o) {
    const std::vector<std::string> with_line = beside(result_.lines, o.line);
    const CandidateKey key{"step", options_.step + " " + joined(result_.lines), o.line + " with loops"};
    std::optional<CandidateRecord> r = by_kernels(with_line);
    if (!r || !r->refused.empty()) return void(judge(o, with_line, r, key, false));
    const std::vector<SearchKernel> all = measurer_.kernels(joined(with_line)), kernels = new_ones(all);
    std::vector<std::string> lines = with_line;
    double saved = 0;
    for (const SearchKernel &k : kernels) {
        if (options_.stopped()) return;
        if (over()) break;
        SearchNews news{
            .what = SearchNews::of_candidate, .of = k.name, .share = k.share, .roof = k.roof, .roof_now = k.roof};
        const LoopNumbers before = numbers_now(k);
        const Loops best = best_loops(k, first_numbers(k), news);
        if (best.numbers == before) continue;
        for (const std::string &l : loop_lines(k, best.numbers, all)) lines.push_back(l);
        saved += k.share * (1 - best.ratio);
    }
    r->ratio *= 1 - saved;
    if (!judge(o, lines, r, key, false)) return;
    for (const SearchKernel &k : kernels) searched_.insert(name_of(k));
}

/// If the step with the line is faster by its kernels' times, each measured once, it is timed as a whole, and has to
/// win there. Returns whether the line was taken.
bool Search::judge(const Open &o, const std::vector<std::string> &lines, std::optional<CandidateRecord> r,
                   const CandidateKey &key, bool known) {
    SearchNews news{.what = SearchNews::of_line, .of = o.line, .predicted = o.predicted, .known = known};
    bool kept = r && !known;
    const bool may_win = r && (known ? wins(*r) : r->refused.empty() && r->ratio < 1);
    if (may_win && !options_.stopped()) {  // even when no time is left: what was found is worth the seconds
        r = confirm(lines);
        kept = r.has_value();
        news.taken = r && wins(*r);
    }
    if (kept) records_.remember(key, *r);
    if (r) news.ratio = r->ratio, news.refused = r->refused;
    if (r && !news.taken) news.not_taken = why_not(*r);
    news.candidate = joined({lines.begin() + long(result_.lines.size()) + 1, lines.end()});
    if (news.taken) result_.lines = lines, result_.step *= r->ratio, result_.lines_kept++;
    const bool refused = !news.refused.empty();
    result_.candidates++, result_.known += known, result_.refused += refused;
    result_.lines_tried++, result_.lines_refused += refused;
    if (news.taken) options_.keep(result_);
    tell(news);
    if (news.taken) look(), propose();
    return news.taken;
}

/// Times whole steps, and again if they win; none if the machine was too busy to tell.
std::optional<CandidateRecord> Search::confirm(const std::vector<std::string> &lines) {
    CandidateRecord r;
    for (int time = 0; time < 2; time++) {
        const Timing t = measurer_.time_step(joined(result_.lines), joined(lines));
        if (t.busy && t.refused.empty()) return std::nullopt;
        r = record_of(t);
        if (!wins(r)) break;
    }
    return r;
}

/// If the loops of its kernels promise more than the line lost, it waits again, to be tried with a search of those.
void Search::may_turn(const Open &o, const std::vector<std::string> &lines, double ratio) {
    double gain = 0, candidates = candidates_of_line;
    for (const SearchKernel &k : new_ones(measurer_.kernels(joined(lines)))) {
        const Outlook of_kernel = outlook(k);
        if (of_kernel.candidates > 0) gain += of_kernel.gain, candidates += of_kernel.candidates;
    }
    if (const double turned = ratio * (1 - gain); gain > 0 && turned < 1)
        open_.push_back({o.line, o.predicted, true, (1 - turned) / candidates});
}

/// Those of `kernels` that the best step so far does not have.
std::vector<SearchKernel> Search::new_ones(std::vector<SearchKernel> kernels) const {
    std::erase_if(kernels, [&](const SearchKernel &k) {
        return std::ranges::find(step_, k.symbol, &StepKernel::key) != step_.end();
    });
    return kernels;
}

}  // namespace cryolite
