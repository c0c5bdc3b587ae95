#include "apps/cryolite/tune/search_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/cryolite/report/page.h"
#include "apps/cryolite/report/progress.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

class SearchPage {
public:
    explicit SearchPage(const SearchReport &report) : r_(report) {
        for (const SearchReport::Moment &m : r_.moments) end_ = std::max(end_, m.seconds);
    }

    std::string html() const {
        return html_page(r_.title, r_.summary,
                         winner() + curve() + kernels() + table_of_tried() + refusals() + unsure());
    }

private:
    const SearchReport &r_;
    double end_ = 1e-3;  ///< of the search, in seconds since it began

    static std::string words_of(const SearchNews &n) { return n.candidate.empty() ? n.of : n.of + ": " + n.candidate; }
    static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

    std::string winner() const {
        std::string lines;
        for (const std::string &l : r_.lines) lines += svg_text(l) + ";\n";
        if (lines.empty())
            return fmt::format("<h2>The lines</h2>\n<p>None: {}.</p>\n",
                               svg_text(r_.not_taken.empty() ? "nothing is faster than the shipped schedule"
                                                             : "what was found is not taken, as " + r_.not_taken));
        return "<h2>The lines</h2>\n<p>What <code>train</code> takes from now on, and <code>--schedule</code> anywhere."
               "</p>\n<pre>" +
               lines + "</pre>\n";
    }

    /// The step's time as a curve over the time of the search, and a mark for each candidate.
    std::string curve() const {
        constexpr double left = 70, right = svg_width - 20, top = 20, bottom = svg_height - 62;
        double least = 1;
        for (const SearchReport::Moment &m : r_.moments) least = std::min(least, m.news.step);
        const double low = std::max(0.0, least - 0.25 * (1 - least) - 0.01), high = 1.01;
        const auto x = [&](double s) { return left + s / end_ * (right - left); };
        const auto y = [&](double step) { return bottom - (step - low) / (high - low) * (bottom - top); };
        std::string svg = svg_begin("the step's time over the search"), path = fmt::format("M{} {:.1f}", left, y(1));
        const double ms = 1e3 * r_.before.seconds, distance = ms * (high - low) / 4;  // between two lines of the grid
        const int decimals = distance > 0 ? std::clamp(int(std::ceil(-std::log10(distance))) + 1, 2, 9) : 2;
        for (int k = 0; k <= 4; k++) {
            const double step = low + (high - low) * k / 4, s = end_ * k / 4;
            svg += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", left, y(step), right) +
                   label_at(left - 7, y(step) + 4, fmt::format("{:.{}f} ms", ms * step, decimals), "end") +
                   label_at(x(s), svg_height - 24, clock_text(s), "middle");
        }
        for (const auto &[seconds, news] : r_.moments) {
            path += fmt::format("H{:.1f}V{:.1f}", x(seconds), y(news.step));
            if (news.what == SearchNews::of_kernel && news.refused.empty() && !news.taken) continue;
            const char *kind = !news.refused.empty() ? "memory" : news.taken ? "compute" : "mark";
            svg += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"2.5\" height=\"14\"><title>{}"
                               "</title></rect>\n",
                               kind, x(seconds) - 1.2, bottom + 8, svg_text(words_of(news)));
        }
        svg += fmt::format("<path class=\"curve\" d=\"{}H{}\"/>\n", path, right);
        return fmt::format("<h2>The search</h2>\n<figure>{}</svg>\n<figcaption>The step's time with what was taken so "
                           "far, as each change was measured beside the step before it. Below, what was tried:"
                           "<span class=\"key mark\"></span>not faster<span class=\"key compute\"></span>taken"
                           "<span class=\"key memory\"></span>refused. Point at one for its name.</figcaption>"
                           "</figure>\n",
                           svg);
    }

    std::string kernels() const {
        std::map<std::string, const KernelTime *> after;
        for (const KernelTime &k : r_.after.kernels) after[k.name] = &k;
        std::vector<const KernelTime *> before;
        for (const KernelTime &k : r_.before.kernels) before.push_back(&k);
        std::ranges::stable_sort(before, std::ranges::greater{}, &KernelTime::seconds);
        double most = 1e-12;
        for (const KernelTime *k : before) most = std::max(most, k->seconds);
        for (const auto &[name, k] : after) most = std::max(most, k->seconds);
        std::string rows;
        for (const KernelTime *k : before) {
            const auto at = after.find(k->name);
            rows += kernel_row(k, at == after.end() ? nullptr : at->second, most);
            if (at != after.end()) after.erase(at);
        }
        for (const auto &[name, k] : after) rows += kernel_row(nullptr, k, most);
        return fmt::format(
            "<h2>The step by kernel, before and after</h2>\n<p>{:.3f} ms a step, now {:.3f} ms. Times are "
            "of a step, those of equal blocks added; the share is of what the machine's roofline allows."
            " A kernel that is in one of the two alone was fused, or taken apart.</p>\n<div class="
            "\"scroll\"><table><tr><th>kernel</th><th class=\"n\">ms</th><th class=\"n\">share</th><th "
            "class=\"n\">ms now</th><th class=\"n\">share now</th><th></th></tr>\n{}</table></div>\n",
            1e3 * r_.before.seconds, 1e3 * r_.after.seconds, rows);
    }
    static std::string kernel_row(const KernelTime *before, const KernelTime *after, double most) {
        const auto cells = [](const KernelTime *k) {
            if (!k) return std::string("<td></td><td></td>");
            return fmt::format("<td class=\"n\">{:.3f}</td><td class=\"n\">{:.0f} %</td>", 1e3 * k->seconds,
                               percent(k->roof_seconds, k->seconds));
        };
        const auto bar = [&](const KernelTime *k, const char *kind) {
            return k ? fmt::format("<div class=\"{}\" style=\"width: {:.1f}%\"></div>", kind, percent(k->seconds, most))
                     : "";
        };
        return fmt::format("<tr><td><code>{}</code></td>{}{}<td class=\"bar\">{}{}</td></tr>\n",
                           svg_text((before ? before : after)->name), cells(before), cells(after),
                           bar(before, "before"), bar(after, "compute"));
    }

    /// Kernels and lines in the order in which they were tried, each with what came of it.
    std::string table_of_tried() const {
        std::string rows;
        for (const auto &[seconds, n] : r_.moments) {
            if (n.what == SearchNews::of_candidate) continue;
            const bool kernel = n.what == SearchNews::of_kernel;
            const std::string outcome = !n.refused.empty() ? "refused"
                                        : n.taken          ? "taken" + (n.candidate.empty() ? "" : ": " + n.candidate)
                                        : n.ratio > 0 && n.ratio < 1 && kernel
                                            ? "faster alone, not as a step: " + n.candidate
                                            : "not faster";
            rows += fmt::format("<tr><td class=\"n\">{}</td><td><code>{}</code></td><td class=\"n\">{}</td><td "
                                "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                                clock_text(seconds), svg_text(n.of), kernel ? std::to_string(n.tried) : "",
                                kernel ? std::to_string(n.refusals) : "",
                                n.predicted > 0 ? fmt::format("{:.3f}", n.predicted) : "",
                                n.ratio > 0 ? fmt::format("{:.3f}", n.ratio) : "", svg_text(outcome));
        }
        return lines_counted() +
               "<div class=\"scroll\"><table><tr><th class=\"n\">at</th><th>kernel or line</th><th class=\"n\">tried"
               "</th><th class=\"n\">refused</th><th class=\"n\">predicted</th><th class=\"n\">time</th><th>outcome"
               "</th></tr>\n" +
               rows + "</table></div>\n";
    }

    std::string lines_counted() const {
        SearchNews last;
        for (const auto &[seconds, n] : r_.moments)
            if (n.what == SearchNews::of_line) last = n;
        return fmt::format("<h2>What was tried</h2>\n<p class=\"dim\">The time is that of the kernel, or of the step "
                           "with the line, as part of the one before; predicted from what its kernels took elsewhere, "
                           "and by the roofline. Lines of the step schedule: {} tried, {} refused, {} kept.</p>\n",
                           last.tried, last.refusals, last.kept);
    }

    std::string refusals() const {
        std::string rows;
        for (const auto &[seconds, n] : r_.moments)
            if (!n.refused.empty())
                rows += fmt::format("<tr><td><code>{}</code></td><td>{}</td></tr>\n", svg_text(words_of(n)),
                                    svg_text(n.refused));
        return "<h2>What was refused, and why</h2>\n" +
               (rows.empty() ? "<p>Nothing.</p>\n"
                             : "<div class=\"scroll\"><table><tr><th>candidate</th><th>reason</th></tr>\n" + rows +
                                   "</table></div>\n");
    }

    /// Kernels that were too large or too slow to be compared with their unscheduled pipeline.
    std::string unsure() const {
        std::map<std::string, std::string> why;
        for (const auto &[seconds, n] : r_.moments)
            if (!n.unsure.empty()) why[n.of] = n.unsure;
        if (why.empty()) return "";
        std::string rows;
        for (const auto &[of, reason] : why)
            rows += fmt::format("<tr><td><code>{}</code></td><td>{}</td></tr>\n", svg_text(of), svg_text(reason));
        return "<h2>What was compared with the shipped kernel alone</h2>\n<p class=\"dim\">The unscheduled kernel did "
               "not serve as the reference of these.</p>\n<div class=\"scroll\"><table><tr><th>kernel</th><th>reason"
               "</th></tr>\n" +
               rows + "</table></div>\n";
    }
};

}  // namespace

std::string search_page(const SearchReport &report) { return SearchPage(report).html(); }

}  // namespace cryolite
