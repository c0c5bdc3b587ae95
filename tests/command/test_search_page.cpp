// The page of `tune --report`: well-formed, alone, and with what the search did.

#include "apps/cryolite/tune/search_page.h"

#include <set>

#include "tests/runtime/scratch.h"
#include "tests/support/html_elements.h"

namespace cryolite::test {

namespace {

SearchReport report_of(const std::string &name) {
    SearchReport r{.title = name,
                   .summary = name,
                   .before = {0.010, {{name, 0.006, 0.003}, {"small", 0.001, 0.0005}}},
                   .after = {0.008, {{name, 0.004, 0.003}, {"fused", 0.001, 0.0005}}},
                   .moments = {},
                   .lines = {"loops(" + name + ", forward): rows=4"},
                   .not_taken = ""};
    const auto add = [&](double at, const SearchNews &n) { r.moments.push_back({at, n}); };
    add(1, {.what = SearchNews::of_candidate, .of = name, .candidate = "rows=8", .ratio = 1.2});
    add(2, {.what = SearchNews::of_candidate, .of = name, .candidate = "rows=3", .refused = "off by <2>"});
    add(3, {.what = SearchNews::of_kernel,
            .of = name,
            .candidate = "rows=4",
            .ratio = 0.66,
            .step = 0.8,
            .unsure = "it takes > 60 s",
            .taken = true,
            .tried = 3,
            .refusals = 1});
    add(4, {.what = SearchNews::of_line,
            .of = "s(a).compute_root()",
            .ratio = 1.1,
            .predicted = 1.25,
            .step = 0.8,
            .tried = 7,
            .refusals = 2,
            .kept = 1});
    return r;
}

}  // namespace

TEST_CASE("search page: well-formed, loads nothing, and what names hold is text") {
    const std::string page = search_page(report_of("h.0.<script src=\"x\">&'"));
    const auto names = html_elements(page);
    check_loads_nothing(page, names);
    CHECK(names == html_elements(search_page(report_of("plain"))));
    CHECK(std::ranges::count(names, "svg") == 1);
    CHECK(std::ranges::count(names, "rect") == 4);  // what was tried
    CHECK(contains(page, "prefers-color-scheme: dark"));
    CHECK(contains(page, "off by &lt;2&gt;"));
    CHECK(contains(page, "it takes &gt; 60 s"));
}

TEST_CASE("search page: lines of the grid have different times, also of a search that gained nothing") {
    SearchReport r = report_of("plain");
    r.before.seconds = r.after.seconds = 1.2e-4;
    for (auto &[at, news] : r.moments) news.step = 1;
    const std::string page = search_page(r);
    std::set<std::string> times;
    for (size_t at = page.find(" ms</text>"); at != std::string::npos; at = page.find(" ms</text>", at + 1))
        times.insert(page.substr(page.rfind('>', at - 1), at - page.rfind('>', at - 1)));
    CHECK(times.size() == 5);
}

TEST_CASE("search page: the step before and after, the curve, the winner's lines, the refusals") {
    const std::string page = search_page(report_of("h.*.up"));
    CHECK(contains(page, "<pre>loops(h.*.up, forward): rows=4;\n</pre>"));
    CHECK(contains(page, "10.000 ms a step, now 8.000 ms"));
    CHECK(contains(page, "<code>h.*.up</code></td><td class=\"n\">6.000</td><td class=\"n\">50 %</td>"
                         "<td class=\"n\">4.000</td><td class=\"n\">75 %</td>"));
    CHECK(
        contains(page, "<code>small</code></td><td class=\"n\">1.000</td><td class=\"n\">50 %</td><td></td><td></td>"));
    CHECK(contains(page, "<code>fused</code></td><td></td><td></td>"));
    CHECK(contains(page, "<code>h.*.up: rows=3</code></td><td>off by &lt;2&gt;</td>"));
    CHECK(contains(page, "<td>taken: rows=4</td>"));
    CHECK(contains(page, "Lines of the step schedule: 7 tried, 2 refused, 1 kept."));
    CHECK(contains(page, "<code>s(a).compute_root()</code></td><td class=\"n\"></td><td class=\"n\"></td>"
                         "<td class=\"n\">1.250</td><td class=\"n\">1.100</td><td>not faster</td>"));
    // The curve falls where a change was taken, and stays from there on.
    const size_t at = page.find("class=\"curve\"");
    REQUIRE(at != std::string::npos);
    const std::string path = page.substr(at, page.find("/>", at) - at);
    CHECK(std::ranges::count(path, 'V') == 4);
    const auto height = [&](int n) {
        size_t v = 0;
        for (int k = 0; k <= n; k++) v = path.find('V', v) + 1;
        return std::stod(path.substr(v));
    };
    CHECK(height(0) == height(1));
    CHECK(height(1) < height(2));
    CHECK(height(2) == height(3));
}

TEST_CASE("search page: a search that found nothing, and one that tried nothing") {
    SearchReport r = report_of("plain");
    r.lines.clear();
    CHECK(contains(search_page(r), "None: nothing is faster than the shipped schedule."));
    r.not_taken = "it is not faster as a whole";
    CHECK(contains(search_page(r), "None: what was found is not taken, as it is not faster as a whole."));
    const std::string page = search_page(
        {.title = "t", .summary = "s", .before = {}, .after = {}, .moments = {}, .lines = {}, .not_taken = ""});
    html_elements(page);
    CHECK(contains(page, "<p>Nothing.</p>"));
    CHECK(!contains(page, "nan"));
    CHECK(!contains(page, ">inf"));
}

}  // namespace cryolite::test
