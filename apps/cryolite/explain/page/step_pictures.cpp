#include "apps/cryolite/explain/page/step_pictures.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "apps/cryolite/report/page.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Powers of ten from a to b.
std::vector<double> decades(double a, double b) {
    std::vector<double> list;
    for (double d = std::pow(10, std::ceil(std::log10(a) - 1e-9)); d <= b * (1 + 1e-9); d *= 10) list.push_back(d);
    return list;
}

/// Two logarithmic axes, which map values to places in the picture.
struct LogAxes {
    double left = 62, right = svg_width - 20, top = 16, bottom = svg_height - 44;
    double low_x, high_x, low_y, high_y;
    double x(double v) const { return left + std::log(v / low_x) / std::log(high_x / low_x) * (right - left); }
    double y(double v) const { return bottom - std::log(v / low_y) / std::log(high_y / low_y) * (bottom - top); }

    std::string grid() const {
        std::string svg;
        for (double d : decades(low_x, high_x))
            svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {}V{}\"/>\n", x(d), top, bottom) +
                   label_at(x(d), bottom + 17, fmt::format("{:g}", d), "middle");
        for (double d : decades(low_y, high_y))
            svg += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", left, y(d), right) +
                   label_at(left - 7, y(d) + 4, fmt::format("{:g}", d), "end");
        return svg + label_at((left + right) / 2, svg_height - 8, "FLOP a byte", "middle") +
               label_at(left + 6, top + 8, "GFLOP/s");
    }
};

struct Place {
    double x = 0, y = 0;
};

/// Where the number of a circle has room: on the circle, or else near it, where no other number is.
Place free_place(Place circle, const std::vector<Place> &taken, const LogAxes &axes) {
    constexpr double width = 20, height = 16, turn = 0.7853981633974483;  // an eighth of a circle
    for (double distance = 0; distance < 200; distance += 12)
        for (int k = 0; k < 8; k++) {
            const Place p{circle.x + distance * std::cos(k * turn), circle.y + distance * std::sin(k * turn)};
            if (p.x < axes.left + 8 || p.x > axes.right - 8 || p.y < axes.top + 8 || p.y > axes.bottom - 8) continue;
            auto meets = [&](Place q) { return std::abs(q.x - p.x) < width && std::abs(q.y - p.y) < height; };
            if (std::ranges::none_of(taken, meets)) return p;
        }
    return circle;
}

}  // namespace

std::string memory_picture(const nlohmann::json &arena) {
    const double calls = std::max(1.0, arena.at("calls").get<double>()), forward = arena.at("forward");
    double bytes = 1;
    for (const auto &b : arena.at("buffers")) bytes = std::max(bytes, double(b.at("offset")) + double(b.at("bytes")));
    constexpr double left = 70, right = svg_width - 8, top = 22, bottom = svg_height - 28;
    auto x = [&](double call) { return left + call / calls * (right - left); };
    auto y = [&](double at) { return bottom - at / bytes * (bottom - top); };
    std::string svg = svg_begin("memory over the step");
    for (int k = 0; k <= 4; k++)
        svg += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", left, y(bytes * k / 4), right) +
               label_at(left - 7, y(bytes * k / 4) + 4, human_bytes(uint64_t(bytes * k / 4)), "end");
    for (const auto &b : arena.at("buffers")) {
        const double first = b.at("first"), last = b.at("last"), offset = b.at("offset"), size = b.at("bytes");
        const bool saved = b.at("saved");
        svg += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}: "
                           "{}, calls {} to "
                           "{}{}</title></rect>\n",
                           saved             ? "saved"
                           : first < forward ? "passing"
                                             : "adjoint",
                           x(first), y(offset + size), x(last + 1) - x(first), y(offset) - y(offset + size),
                           svg_text(b.at("name").get<std::string>()), human_bytes(uint64_t(size)), first + 1, last + 1,
                           saved ? ", saved for the backward pass" : "");
    }
    svg += fmt::format("<path class=\"line\" d=\"M{:.1f} {}V{}\"/>\n", x(forward), top - 14, bottom);
    svg +=
        label_at(x(forward) - 6, top - 7, "forward", "end") + label_at(x(forward) + 6, top - 7, "backward and update");
    return svg + label_at((left + right) / 2, svg_height - 8, "kernel calls, in their order", "middle") + "</svg>\n";
}

double KernelLine::share_of_roof(double peak, double bandwidth) const {
    if (seconds <= 0) return 0;
    return std::max(flops / (peak * 1e9), bytes / (bandwidth * 1e9)) / seconds;
}

std::string roofline_picture(const std::vector<KernelLine> &lines, size_t numbered, double peak, double bandwidth) {
    LogAxes axes{.low_x = peak / bandwidth / 10, .high_x = peak / bandwidth * 10, .low_y = peak, .high_y = peak * 3};
    auto roof = [&](double intensity) { return std::min(peak, intensity * bandwidth); };
    auto drawn = [](const KernelLine &l) { return l.flops > 0 && l.bytes > 0; };
    auto speed = [&](const KernelLine &l) {
        return l.seconds > 0 ? l.flops / l.seconds * 1e-9 : roof(l.flops / l.bytes);
    };
    for (const KernelLine &l : lines)
        if (drawn(l)) {
            axes.low_x = std::min(axes.low_x, 0.6 * l.flops / l.bytes);
            axes.high_x = std::max(axes.high_x, 1.6 * l.flops / l.bytes);
            axes.low_y = std::min(axes.low_y, 0.4 * speed(l));
            axes.high_y = std::max(axes.high_y, 1.6 * speed(l));
        }
    axes.low_y = std::min(axes.low_y, 0.6 * roof(axes.low_x));
    std::string svg = svg_begin("roofline") + axes.grid();
    const double corner = peak / bandwidth;
    svg += fmt::format("<path class=\"roof\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}H{:.1f}\"/>\n", axes.x(axes.low_x),
                       axes.y(roof(axes.low_x)), axes.x(corner), axes.y(peak), axes.right);
    svg += label_at(axes.right - 6, axes.top + 8, fmt::format("{:.0f} GFLOP/s", peak), "end");  // above all circles
    svg += label_at(axes.x(corner) - 14, axes.y(peak) - 8, fmt::format("{:.0f} GB/s", bandwidth), "end");
    for (size_t i = lines.size(); i-- > 0;) {  // the largest on top
        const KernelLine &l = lines[i];
        if (!drawn(l)) continue;
        const double intensity = l.flops / l.bytes;
        const std::string reached = l.seconds > 0 ? fmt::format("{:.1f} GFLOP/s, {:.0f} % of the roof", speed(l),
                                                                100 * l.share_of_roof(peak, bandwidth))
                                                  : "not timed";
        svg += fmt::format(
            "<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}: {}, {:.1f} FLOP a "
            "byte, {:.1f} % of the step</title></circle>\n",
            l.by_memory ? "memory" : "compute", l.seconds > 0 ? "" : " hollow", axes.x(intensity), axes.y(speed(l)),
            4 + 26 * std::sqrt(l.share), svg_text(l.name), reached, intensity, 100 * l.share);
    }
    std::vector<Place> taken;
    for (size_t i = 0; i < std::min(numbered, lines.size()); i++) {
        if (!drawn(lines[i])) continue;
        const Place circle{axes.x(lines[i].flops / lines[i].bytes), axes.y(speed(lines[i]))};
        const Place at = free_place(circle, taken, axes);
        taken.push_back(at);
        if (at.x != circle.x || at.y != circle.y)
            svg += fmt::format("<path class=\"leader\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", circle.x, circle.y,
                               at.x, at.y);
        svg += fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at.x,
                           at.y + 4, i + 1);
    }
    return svg + "</svg>\n";
}

}  // namespace cryolite
