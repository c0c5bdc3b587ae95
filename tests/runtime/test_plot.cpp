#include "runtime/files/plot.h"
#include "tests/runtime/scratch.h"

#include <cmath>
#include <limits>
#include <vector>

namespace cryolite::test {

namespace {

/// Tags closed in order, no stray < or &: enough of XML for what the plot writes.
bool well_formed(const std::string &xml) {
    std::vector<std::string> open;
    for (size_t i = 0; i < xml.size(); ++i) {
        if (xml[i] == '&') {
            const std::string entity = xml.substr(i, xml.find(';', i) - i + 1);
            if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;") return false;
        }
        if (xml[i] != '<') continue;
        const size_t end = xml.find('>', i);
        if (end == std::string::npos) return false;
        const std::string tag = xml.substr(i + 1, end - i - 1);
        const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
        if (tag[0] == '/') {
            if (open.empty() || open.back() != name) return false;
            open.pop_back();
        } else if (tag.back() != '/') {
            open.push_back(name);
        }
        i = end;
    }
    return open.empty();
}

LossPlot run_of(int steps) {
    LossPlot plot{"gpt <tiny> & \x01 co", {}, {}};
    for (int i = 1; i <= steps; ++i) {
        const double curve = 1.45 + 2.7 * std::exp(-i / (0.12 * steps));
        plot.train.push_back({double(i), curve + 0.05 * std::sin(i * 12.9898) * std::sin(i * 78.233)});
        if (i % (steps / 8 + 1) == 0 || i == steps) plot.validation.push_back({double(i), curve + 0.12});
    }
    return plot;
}

}  // namespace

TEST_CASE("plot: ticks are round") {
    CHECK(round_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
    CHECK(round_ticks(1.41, 4.3, 6) == std::vector<double>{1.5, 2, 2.5, 3, 3.5, 4});
    CHECK(round_ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
    CHECK(round_ticks(1, 1, 4).empty());
    CHECK(round_ticks(0, INFINITY, 4).empty());
    for (double high : {1e-9, 0.37, 1999.0, 3e12}) {
        const auto ticks = round_ticks(0, high, 8);
        CHECK(ticks.size() >= 4);
        CHECK(ticks.size() <= 10);
    }
}

TEST_CASE("plot: a document of every kind of run") {
    for (int steps : {0, 1, 2, 50, 2000}) {
        CAPTURE(steps);
        const std::string svg = loss_svg(run_of(steps));
        CHECK(well_formed(svg));
        CHECK(contains(svg, "gpt &lt;tiny&gt; &amp;   co"));
        CHECK(contains(svg, "no losses yet") == (steps == 0));
        CHECK_FALSE(contains(svg, "nan"));
    }
    CHECK(loss_svg(run_of(300'000)).size() < 120'000);
}

TEST_CASE("plot: losses that are not finite, constant or enormous") {
    LossPlot plot{"t", {{1, 2}, {2, NAN}, {3, INFINITY}, {4, 1e300}, {5, -1e300}}, {{3, 2}, {NAN, 1}}};
    std::string svg = loss_svg(plot);
    CHECK(well_formed(svg));
    CHECK_FALSE(contains(svg, "nan"));
    CHECK_FALSE(contains(svg, "inf"));
    plot = {"t", {{1, 2}, {2, 2}, {3, 2}}, {}};
    svg = loss_svg(plot);
    CHECK(well_formed(svg));
    CHECK(contains(svg, "training, smoothed"));
    CHECK_FALSE(contains(svg, ">validation<"));
}

TEST_CASE("plot: several runs in one picture, each named, in a colour of its own") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::string svg = compare_svg("a & b", {{"runs/a<b", {{1, 4.0}, {2, 3.5}, {3, nan}}, {{2, 3.75}}},
                                                  {"runs/b", {{1, 5.0}, {2, 4.5}}, {}},
                                                  {"runs/empty", {}, {}}});
    CHECK(svg.ends_with("</svg>\n"));
    for (const char *text :
         {"a &amp; b", "runs/a&lt;b", "runs/b", "runs/empty", "#2b6cb0", "#d9480f", "#2f855a", "<circle"})
        CHECK_MESSAGE(svg.find(text) != std::string::npos, text);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find(">validation</text>") != std::string::npos);  // what is dashed
    CHECK(compare_svg("a", {{"runs/a", {{1, 4.0}, {2, 3.5}}, {}}}).find(">validation<") == std::string::npos);
    CHECK(compare_svg("none", {{"runs/empty", {}, {}}}).find("no losses yet") != std::string::npos);
}

}  // namespace cryolite::test
