#pragma once
// loss.svg: the losses of a run at a glance, in any browser.

#include <string>
#include <string_view>
#include <vector>

namespace cryolite {

struct LossPoint {
    double step = 0, loss = 0;
    double batches = 0;  ///< of an evaluation of a part of the data; 0: of all
};

struct LossPlot {
    std::string title;                  ///< "gpt nano on tinyshakespeare.txt"
    std::vector<LossPoint> train;       ///< by step; drawn lightly, and smoothed on top
    std::vector<LossPoint> validation;  ///< by step; points joined by a line, the last one labelled
};

/// The plot as an SVG document. Points that are not finite are left out; where none are left, the plot says so.
std::string loss_svg(const LossPlot &plot);

/// One of the runs that are compared.
struct LossCurve {
    std::string name;
    std::vector<LossPoint> train, validation;  ///< by step
};

/// What every picture of `compare_svg` begins with.
inline constexpr std::string_view compare_heading = "<svg data-drawn-by=\"cryolite runs compare\" ";

/// The losses of several runs in one picture, each in its colour: training smoothed, validation as points joined by a
/// dashed line. Points that are not finite are left out.
std::string compare_svg(const std::string &title, const std::vector<LossCurve> &runs);

/// Round numbers 1, 2 or 5 times a power of ten apart that lie in [low, high], about `count` of
/// them.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace cryolite
