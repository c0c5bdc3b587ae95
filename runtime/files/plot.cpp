#include "runtime/files/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/files/svg.h"

namespace cryolite {

namespace {

constexpr double width = 900, height = 520;
constexpr double left = 70, right = 872, top = 58, bottom = 462;
constexpr const char *train_color = "#2b6cb0", *raw_color = "#bcd4ec", *validation_color = "#d9480f";

/// Where a value is drawn.
struct Axes {
    double first_step = 0, last_step = 1, low = 0, high = 1;
    double x(double step) const { return left + (step - first_step) / (last_step - first_step) * (right - left); }
    double y(double loss) const { return bottom - (loss - low) / (high - low) * (bottom - top); }
};

std::vector<LossPoint> finite(const std::vector<LossPoint> &points) {
    std::vector<LossPoint> kept;
    for (const LossPoint &p : points)  // far beyond any loss, sums of them would overflow
        if (std::isfinite(p.step) && std::abs(p.loss) < 1e30) kept.push_back(p);
    return kept;
}

/// The mean over about a fortieth of the run around each point, over less near its ends: it neither
/// lags behind nor leads.
std::vector<LossPoint> smoothed(const std::vector<LossPoint> &points) {
    const size_t count = points.size(), reach = count / 80;
    std::vector<double> sums = {0};
    for (const LossPoint &p : points) sums.push_back(sums.back() + p.loss);
    std::vector<LossPoint> means;
    for (size_t i = 0; i < count; ++i) {
        const size_t half = std::min({reach, i, count - 1 - i});
        const double sum = sums[i + half + 1] - sums[i - half];
        means.push_back({points[i].step, sum / static_cast<double>(2 * half + 1)});
    }
    return means;
}

/// At most about two points for each pixel, the least and the largest of a group, so that a run of
/// a million steps has a small file and keeps its spikes.
std::vector<LossPoint> thinned(const std::vector<LossPoint> &points) {
    const size_t groups = static_cast<size_t>(right - left), count = points.size();
    if (count <= 2 * groups) return points;
    std::vector<LossPoint> kept;
    for (size_t g = 0; g < groups; ++g) {
        const auto begin = points.begin() + static_cast<std::ptrdiff_t>(g * count / groups);
        const auto end = points.begin() + static_cast<std::ptrdiff_t>((g + 1) * count / groups);
        auto [a, b] =
            std::minmax_element(begin, end, [](const LossPoint &p, const LossPoint &q) { return p.loss < q.loss; });
        if (b < a) std::swap(a, b);
        kept.push_back(*a);
        if (a != b) kept.push_back(*b);
    }
    return kept;
}

/// Steps from the first to the last. The range of losses is that of these curves, of which training is smoothed, so
/// that a spike does not flatten all.
Axes axes_for(const std::vector<const std::vector<LossPoint> *> &all) {
    Axes axes{INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (const auto *points : all)
        for (const LossPoint &p : *points) {
            axes.first_step = std::min(axes.first_step, p.step);
            axes.last_step = std::max(axes.last_step, p.step);
            axes.low = std::min(axes.low, p.loss);
            axes.high = std::max(axes.high, p.loss);
        }
    if (axes.first_step > 0 && axes.first_step < 0.02 * axes.last_step) axes.first_step = 0;
    if (axes.last_step - axes.first_step < 1) axes.last_step = axes.first_step + 1;
    const double room = std::max((axes.high - axes.low) * 0.06, std::abs(axes.high) * 1e-3 + 1e-9);
    axes.low -= room;
    axes.high += room;
    return axes;
}

std::string text_at(double x, double y, const char *style, const std::string &text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, svg_text(text));
}

std::string grid(const Axes &axes) {
    std::string svg = "<g stroke=\"#e6e8eb\" stroke-width=\"1\">\n", labels;
    const std::vector<double> losses = round_ticks(axes.low, axes.high, 7);
    // As many decimals for all as their distance needs: 1.0 and 1.5, not 1 and 1.5.
    const double distance = losses.size() > 1 ? losses[1] - losses[0] : 1;
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 9);
    for (double loss : losses) {
        const double y = axes.y(loss);
        svg += fmt::format("<path d=\"M{} {:.1f}H{}\"/>\n", left, y, right);
        labels += text_at(left - 9, y + 4, "text-anchor=\"end\"",
                          std::abs(loss) < 1e6 ? fmt::format("{:.{}f}", loss, decimals) : fmt::format("{:.4g}", loss));
    }
    for (double step : round_ticks(axes.first_step, axes.last_step, 9)) {
        const double x = axes.x(step);
        svg += fmt::format("<path d=\"M{:.1f} {}V{}\"/>\n", x, top, bottom);
        labels += text_at(x, bottom + 20, "text-anchor=\"middle\"", fmt::format("{:.7g}", step));
    }
    svg += "</g>\n" + labels;
    svg += text_at((left + right) / 2, height - 16, "text-anchor=\"middle\" fill=\"#57606a\"", "step");
    svg += fmt::format("<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\" "
                       "fill=\"#57606a\">loss</text>\n",
                       (top + bottom) / 2);
    return svg +
           fmt::format("<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"#57606a\"/>\n", left, top, bottom, right);
}

std::string line(const Axes &axes, const std::vector<LossPoint> &points, const char *color, double stroke,
                 const char *more = "") {
    if (points.size() < 2) return "";
    std::string path;
    for (const LossPoint &p : points)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", axes.x(p.step), axes.y(p.loss));
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
                       "stroke-linejoin=\"round\"{}/>\n",
                       path, color, stroke, more);
}

std::string dots(const Axes &axes, const std::vector<LossPoint> &points, const char *color) {
    std::string svg;
    for (const LossPoint &p : points)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"{}\" stroke=\"#fff\"/>\n",
                           axes.x(p.step), axes.y(p.loss), color);
    return svg;
}

struct Key {
    std::string name;
    const char *color;
    double stroke;
    const char *more = "";  ///< more attributes of its line
};

std::string legend(const std::vector<Key> &keys) {
    size_t longest = 20;
    for (const Key &key : keys) longest = std::max(longest, key.name.size());
    const double box = 56 + 7.0 * double(longest), x = right - box - 12;
    double y = top + 14;
    std::string svg = fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"#fff\" "
                                  "fill-opacity=\"0.9\" stroke=\"#d0d7de\"/>\n",
                                  x, y, box, 14 + 21 * keys.size());
    for (const Key &key : keys) {
        y += 21;
        svg += fmt::format("<path d=\"M{} {}h26\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", x + 12, y - 4, key.color,
                           key.stroke, key.more);
        svg += text_at(x + 48, y, "", key.name);
    }
    return svg;
}

/// The last validation loss, beside its point and inside the frame.
std::string last_value(const Axes &axes, const LossPoint &p) {
    const double y = axes.y(p.loss);
    return text_at(axes.x(p.step) - 2, y < top + 30 ? y + 22 : y - 12,
                   "text-anchor=\"end\" font-weight=\"600\" fill=\"#d9480f\" paint-order=\"stroke\" "
                   "stroke=\"#fff\" stroke-width=\"4\"",
                   fmt::format("{:.4f}", p.loss));
}

std::string curves(const std::vector<LossPoint> &train, const std::vector<LossPoint> &validation) {
    const std::vector<LossPoint> means = smoothed(train);
    const Axes axes = axes_for({&means, &validation});
    std::string svg = grid(axes) + "<g clip-path=\"url(#frame)\">\n";
    svg += line(axes, thinned(train), raw_color, 1) + line(axes, thinned(means), train_color, 2);
    if (train.size() == 1) svg += dots(axes, train, train_color);
    svg += "</g>\n" + line(axes, thinned(validation), validation_color, 1.6);
    if (validation.size() <= 60) svg += dots(axes, validation, validation_color);
    std::vector<Key> keys;
    if (!train.empty()) keys = {{"training, each step", raw_color, 2}, {"training, smoothed", train_color, 2.5}};
    if (!validation.empty()) {
        keys.push_back({"validation", validation_color, 2.5});
        svg += last_value(axes, validation.back());
    }
    return svg + legend(keys);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
    const double raw = (high - low) / std::max(1, count);
    if (!std::isfinite(raw) || raw <= 0) return {};
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    double distance = 10 * power;
    for (double factor : {5.0, 2.0, 1.0})
        if (factor * power >= raw * 0.999) distance = factor * power;
    std::vector<double> ticks;
    for (double n = std::ceil(low / distance - 1e-9); n * distance <= high + distance * 1e-9; ++n) {
        ticks.push_back(n == 0 ? 0 : n * distance);  // no minus zero
        if (ticks.size() > 100) break;               // numbers too close for a double to tell apart
    }
    return ticks;
}

namespace {

/// An empty picture with its title; `</svg>` is still to come.
std::string picture(const std::string &title, std::string_view begin = "<svg ") {
    std::string svg = fmt::format("{6}xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                                  "height=\"{1}\" "
                                  "font-family=\"{7}\" font-size=\"13\" "
                                  "fill=\"#1f2328\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
                                  "<clipPath id=\"frame\"><rect x=\"{2}\" y=\"{3}\" width=\"{4}\" "
                                  "height=\"{5}\"/></clipPath>\n",
                                  width, height, left, top, right - left, bottom - top, begin, svg_fonts);
    return svg + text_at(left, 36, "font-size=\"18\" font-weight=\"600\"", title);
}

std::string no_losses() {
    return text_at(width / 2, height / 2, "text-anchor=\"middle\" fill=\"#57606a\"", "no losses yet");
}

}  // namespace

std::string loss_svg(const LossPlot &plot) {
    const std::vector<LossPoint> train = finite(plot.train), validation = finite(plot.validation);
    const bool empty = train.empty() && validation.empty();
    return picture(plot.title) + (empty ? no_losses() : curves(train, validation)) + "</svg>\n";
}

std::string compare_svg(const std::string &title, const std::vector<LossCurve> &runs) {
    constexpr const char *colors[] = {"#2b6cb0", "#d9480f", "#2f855a", "#805ad5",
                                      "#b7791f", "#c53030", "#0987a0", "#4a5568"};
    std::vector<LossCurve> kept;
    std::vector<const std::vector<LossPoint> *> all;
    for (const LossCurve &run : runs) kept.push_back({run.name, smoothed(finite(run.train)), finite(run.validation)});
    for (const LossCurve &run : kept)
        for (const auto *points : {&run.train, &run.validation})
            if (!points->empty()) all.push_back(points);
    if (all.empty()) return picture(title, compare_heading) + no_losses() + "</svg>\n";
    const Axes axes = axes_for(all);
    std::string svg = picture(title, compare_heading) + grid(axes);
    constexpr const char *dashed = " stroke-dasharray=\"6 4\"";
    std::vector<Key> keys;
    for (const LossCurve &run : kept) {
        const char *color = colors[keys.size() % std::size(colors)];
        svg += line(axes, thinned(run.train), color, 2) + line(axes, thinned(run.validation), color, 1.6, dashed);
        if (run.validation.size() <= 60) svg += dots(axes, run.validation, color);
        keys.push_back({run.name, color, 2.5});
    }
    if (std::ranges::any_of(kept, [](const LossCurve &run) { return !run.validation.empty(); }))
        keys.push_back({"validation", "#57606a", 1.6, dashed});
    return svg + legend(keys) + "</svg>\n";
}

}  // namespace cryolite
