#pragma once
// Pages that a browser opens: one HTML file each, well-formed as XML, which loads nothing and is light or dark as the
// browser is.

#include <string>

#include "runtime/files/svg.h"
#include "runtime/io/files.h"

namespace cryolite {

/// `body`: HTML after the title and the summary, which are text.
std::string html_page(const std::string &title, const std::string &summary, const std::string &body);

/// Throws UsageError if a page in `file`, which `flag` names, would replace something other than a page.
void check_page_file(const std::string &flag, const fs::path &file);

constexpr double svg_width = 1000, svg_height = 340;  ///< of a picture, in its own units

/// The opening tag of a picture; `words`: its text for screen readers.
std::string svg_begin(const char *words);
/// Text within a picture; `anchor`: SVG's text-anchor.
std::string label_at(double x, double y, const std::string &text, const char *anchor = "start");

}  // namespace cryolite
