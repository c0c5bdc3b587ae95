// What is told of a search: events, rows of the table.

#include "apps/cryolite/tune/search_words.h"

#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

const SearchNews kernel{.what = SearchNews::of_kernel,
                        .of = "h.0.up",
                        .candidate = "rows=4",
                        .share = 0.25,
                        .ratio = 0.5,
                        .roof = 0.3,
                        .roof_now = 0.6,
                        .step = 0.8,
                        .unsure = "its arrays take 900 MiB",
                        .taken = true,
                        .tried = 7,
                        .refusals = 2,
                        .left = 41,
                        .kept = 3};

}  // namespace

TEST_CASE("search words: an event has how many were tried, refused, kept and are left, and what is unsure") {
    const nlohmann::json e = event_of(kernel, 12.5);
    CHECK(e.at("event") == "kernel");
    CHECK(e.at("tried") == 7);
    CHECK(e.at("refusals") == 2);
    CHECK(e.at("left") == 41);
    CHECK(e.at("kept") == 3);
    CHECK(e.at("left_s") == 12.5);
    CHECK(e.at("unsure") == "its arrays take 900 MiB");
    CHECK(event_of(kernel, -1).at("left_s") == 0);
}

TEST_CASE("search words: a row stands below its header, with the candidates that are left") {
    const std::string row = search_row(kernel, 90);
    const auto below = [&](const std::string &column) {
        const size_t end = search_header.find(column) + column.size();
        return row.substr(row.rfind(' ', end - 1) + 1, end - row.rfind(' ', end - 1) - 1);
    };
    CHECK(below("share") == "25.0%");
    CHECK(below("tried") == "7");
    CHECK(below("refused") == "2");
    CHECK(below("left") == "41");
    CHECK(below("step") == "+25.0%");
    CHECK(contains(row, "taken rows=4, compared with the shipped kernel alone: its arrays take 900 MiB"));
    SearchNews sure = kernel;
    sure.unsure.clear();
    CHECK(!contains(search_row(sure, 90), "compared"));
    const SearchNews line{
        .what = SearchNews::of_line, .of = "a line", .ratio = 0.9, .predicted = 0.8, .not_taken = "why"};
    CHECK(contains(search_row(line, 90), "predicted 0.800 of the time, 0.900 not taken: why"));
    const SearchNews slower{.what = SearchNews::of_line, .of = "a line", .ratio = 1.001, .predicted = 0.9};
    CHECK(contains(search_row(slower, 90), "predicted 0.900 of the time, 1.001 not faster"));
    CHECK(contains(search_row({.what = SearchNews::of_kernel, .of = "h.0.up"}, 0), "no time was left to try any"));
    CHECK(contains(live_line(kernel, 90), "7 tried, 41 left, 2 refused"));
}

}  // namespace cryolite::test
