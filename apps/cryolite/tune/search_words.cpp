#include "apps/cryolite/tune/search_words.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cryolite/report/progress.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// How much faster the whole step is, in percent.
double gain(const SearchNews &n) { return n.step > 0 ? 100 / n.step - 100 : 0; }

std::string first_line(const std::string &text) { return text.substr(0, text.find('\n')); }

std::string outcome_of(const SearchNews &n) {
    if (!n.refused.empty()) return "refused: " + first_line(n.refused);
    std::string times;
    if (n.what == SearchNews::of_line)
        times = n.ratio > 0 ? fmt::format("predicted {:.3f} of the time, {:.3f} ", n.predicted, n.ratio)
                            : "not timed: the machine is too busy";
    if (n.taken && !n.unsure.empty())
        return fmt::format("{}taken {}, compared with the shipped kernel alone: {}", times, n.candidate,
                           first_line(n.unsure));
    if (!n.not_taken.empty()) return times + "not taken: " + n.not_taken;
    if (n.taken) return times + "taken " + n.candidate;
    if (!n.candidate.empty()) return times + "not faster as a step: " + n.candidate;
    if (!n.unconfirmed.empty()) return "faster once, not confirmed: " + n.unconfirmed;
    if (n.what == SearchNews::of_kernel) return n.tried == 0 ? "no time was left to try any" : "";
    return n.ratio > 0 ? times + "not faster" : times;
}

}  // namespace

const std::string search_header =
    "  share   roof    now  tried  refused   left   kept   step time left  kernel or line";

json event_of(const SearchNews &n, double seconds_left) {
    return {{"event", n.what == SearchNews::of_candidate ? "candidate"
                      : n.what == SearchNews::of_kernel  ? "kernel"
                                                         : "line"},
            {"of", n.of},
            {"candidate", n.candidate},
            {"share", n.share},
            {"roof", n.roof},
            {"roof_now", n.roof_now},
            {"step", n.step},
            {"ratio", n.ratio},
            {"predicted", n.predicted},
            {"refused", n.refused},
            {"unsure", n.unsure},
            {"unconfirmed", n.unconfirmed},
            {"not_taken", n.not_taken},
            {"known", n.known},
            {"taken", n.taken},
            {"tried", n.tried},
            {"refusals", n.refusals},
            {"left", n.left},
            {"kept", n.kept},
            {"left_s", std::max(0.0, seconds_left)}};
}

std::string search_row(const SearchNews &n, double seconds_left) {
    const bool kernel = n.what == SearchNews::of_kernel;
    const auto percent = [&](double x) { return kernel ? fmt::format("{:.1f}%", 100 * x) : ""; };
    const std::string outcome = outcome_of(n);
    return fmt::format("{:>7} {:>6} {:>6} {:>6} {:>8} {:>6} {:>6} {:>+5.1f}% {:>9}  {}{}{}", percent(n.share),
                       percent(n.roof), percent(n.roof_now), n.tried, n.refusals, n.left,
                       kernel ? "" : std::to_string(n.kept), gain(n), clock_text(std::max(0.0, seconds_left)),
                       without_tail(n.of), outcome.empty() ? "" : "  ", outcome);
}

std::string live_line(const SearchNews &n, double seconds_left) {
    const std::string predicted = n.predicted > 0 ? fmt::format(", predicted {:.3f}", n.predicted) : "";
    return fmt::format("{} ({:.1f} % of the step, {:.0f} % of the roofline, now {:.0f} %): {} tried, {} left, {} "
                       "refused; {} -> {}; step {:+.1f} %; {} left",
                       without_tail(n.of), 100 * n.share, 100 * n.roof, 100 * n.roof_now, n.tried, n.left, n.refusals,
                       n.candidate,
                       n.refused.empty() ? fmt::format("{:.3f} of the time{}", n.ratio, predicted)
                                         : "refused: " + without_tail(first_line(n.refused)),
                       gain(n), clock_text(std::max(0.0, seconds_left)));
}

std::string without_tail(const std::string &name) { return name.size() > 60 ? name.substr(0, 57) + "..." : name; }

}  // namespace cryolite
