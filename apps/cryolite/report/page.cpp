#include "apps/cryolite/report/page.h"

#include "apps/cryolite/report/overwrite.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// What every page begins with.
constexpr std::string_view page_heading =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta name=\"generator\" content=\"Cryolite\"/>";

constexpr const char *style = R"(
:root { color-scheme: light dark; --ground: #fff; --text: #1f2328; --dim: #59636e; --rule: #d9dee3; --panel: #f6f8fa;
  --saved: #2b6cb0; --passing: #a9cbe8; --adjoint: #e0894a; --compute: #2b6cb0; --memory: #d9622b; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #11151a; --text: #dfe5eb; --dim: #96a1ac; --rule: #2d343c; --panel: #191f26; --saved: #5b9bdc;
    --passing: #2f4f70; --adjoint: #d98b4f; --compute: #5b9bdc; --memory: #e08a54; } }
* { box-sizing: border-box; }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1120px; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 8px; }
p { margin: 6px 0 10px; max-width: 78ch; } .dim, figcaption { color: var(--dim); }
figure { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; margin: 12px 0; padding: 12px; }
figcaption { font-size: 13px; margin-top: 6px; } svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--dim); font: 12px system-ui, sans-serif; } svg .grid { stroke: var(--rule); }
svg .line { stroke: var(--dim); stroke-dasharray: 3 3; } svg .roof { fill: none; stroke: var(--dim); stroke-width: 2; }
svg rect { stroke: var(--panel); stroke-width: .6; } .saved { fill: var(--saved); background: var(--saved); }
.passing { fill: var(--passing); background: var(--passing); }
.adjoint { fill: var(--adjoint); background: var(--adjoint); }
.compute { fill: var(--compute); background: var(--compute); }
.memory { fill: var(--memory); background: var(--memory); }
.before { background: var(--passing); } svg .curve { fill: none; stroke: var(--compute); stroke-width: 2.5; }
.mark { background: var(--dim); fill: var(--dim); }
svg circle { fill-opacity: .78; } svg .hollow { fill: none; stroke-width: 1.6; stroke-dasharray: 4 3; }
svg .hollow.compute { stroke: var(--compute); } svg .hollow.memory { stroke: var(--memory); }
span.hollow { background: none; border: 1.5px dashed var(--dim); border-radius: 6px; }
svg .leader { stroke: var(--text); stroke-width: .8; }
svg text.number { fill: var(--text); font-weight: 600; paint-order: stroke; stroke: var(--panel); stroke-width: 3px; }
td.n:first-child { width: 3em; }
.key { border-radius: 3px; display: inline-block; height: 11px; margin: 0 5px 0 12px; width: 11px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { color: var(--dim); font-weight: 600; text-align: left; } th, td { border-bottom: 1px solid var(--rule);
  padding: 5px 8px; vertical-align: top; } .n { font-variant-numeric: tabular-nums; text-align: right;
  white-space: nowrap; } td.bar { min-width: 110px; } td.bar div { border-radius: 2px; height: 9px; margin-top: 5px; }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; } .stages { color: var(--dim); margin: 2px 0 0 14px; }
details { border-bottom: 1px solid var(--rule); padding: 5px 0; } summary { cursor: pointer; }
pre { background: var(--panel); border-radius: 6px; overflow-x: auto; padding: 10px; }
)";

}  // namespace

std::string html_page(const std::string &title, const std::string &summary, const std::string &body) {
    return fmt::format("{4}<meta charset=\"utf-8\"/><meta name=\"viewport\" "
                       "content=\"width=device-width\"/>\n<title>{0}</title><style>{1}</style></head><body>\n"
                       "<h1>{0}</h1>\n<p class=\"dim\">{2}</p>\n{3}</body></html>\n",
                       svg_text(title), style, svg_text(summary), body, page_heading);
}

void check_page_file(const std::string &flag, const fs::path &file) {
    check_overwrite(flag, file, page_heading, "page of Cryolite");
}

std::string svg_begin(const char *words) {
    return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", svg_width, svg_height, words);
}

std::string label_at(double x, double y, const std::string &text, const char *anchor) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, svg_text(text));
}

}  // namespace cryolite
