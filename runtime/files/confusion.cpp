#include "runtime/files/confusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "runtime/files/svg.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// White to dark: blue for what is right, red for what is not.
std::string square_colour(double share, bool right) {
    const double full[2][3] = {{176, 32, 16}, {33, 90, 160}};
    int c[3];
    for (int k = 0; k < 3; k++) c[k] = int(std::lround(255 + share * (full[right][k] - 255)));
    return fmt::format("#{:02x}{:02x}{:02x}", c[0], c[1], c[2]);
}

}  // namespace

std::string confusion_svg(const std::string &title, int classes, const std::vector<uint64_t> &counts,
                          const std::vector<std::string> &names) {
    constexpr int cell = 44, top = 84, margin = 24, of_letter = 9, of_number = 46;
    const auto n = size_t(classes);
    if (classes < 1 || counts.size() != n * n)
        fail("a picture of {} classes needs {} counts, not {}", classes, n * n, counts.size());
    if (!names.empty() && names.size() != n)
        fail("a picture of {} classes needs {} names or none, not {}", classes, n, names.size());
    size_t letters = 0;
    for (const std::string &name : names) letters = std::max(letters, name.size() + 1);
    const int left = margin + of_number + of_letter * int(letters);
    // With few classes, the title is the widest.
    const int width = std::max(left + classes * cell, margin + of_letter * int(title.size())) + margin,
              height = top + classes * cell + margin;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"{6}\" font-size=\"13\" text-anchor=\"middle\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
        "<text x=\"{2}\" y=\"26\" text-anchor=\"start\" font-size=\"15\">{3}</text>\n"
        "<text x=\"{4}\" y=\"52\" fill=\"#555555\">answer</text>\n"
        "<text x=\"18\" y=\"{5}\" fill=\"#555555\" transform=\"rotate(-90 18 {5})\">label</text>\n",
        width, height, margin, svg_text(title), left + classes * cell / 2, top + classes * cell / 2, svg_fonts);
    auto out = std::back_inserter(svg);
    for (int label = 0; label < classes; label++) {
        uint64_t rows = 0;
        for (size_t a = 0; a < n; a++) rows += counts[size_t(label) * n + a];
        const int y = top + label * cell, middle = y + cell / 2 + 5;
        fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>\n", left + label * cell + cell / 2, top - 8, label);
        fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}{}</text>\n", left - 10, middle,
                       names.empty() ? "" : svg_text(names[size_t(label)]) + " ", label);
        for (int answer = 0; answer < classes; answer++) {
            const uint64_t count = counts[size_t(label) * n + size_t(answer)];
            const double share = rows ? double(count) / double(rows) : 0;
            const int x = left + answer * cell;
            fmt::format_to(out, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x, y, cell - 1,
                           cell - 1, square_colour(share, label == answer));
            if (count)
                fmt::format_to(out, "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", x + cell / 2, middle,
                               share > 0.5 ? "#ffffff" : "#333333", count);
        }
    }
    return svg + "</svg>\n";
}

}  // namespace cryolite
