// The tables of `explain`: which rows are one, what they are called, and in which units numbers are.

#include <algorithm>

#include "apps/cryolite/explain/tables/explain_parameters.h"
#include "apps/cryolite/explain/tables/merged_rows.h"
#include "apps/cryolite/report/units.h"
#include "bundle/entries.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

std::string merged(const std::vector<BlockRow> &rows) {
    std::string text;
    for (const MergedRow &m : merged_rows(rows)) text += fmt::format("{} x{} of {};", m.name, m.count, m.first);
    return text;
}

/// Blocks whose weights are updated with their gradients, but for some.
Plan plan_of_blocks(int blocks, const std::vector<int> &separate = {}) {
    Plan p;
    for (int b = 0; b < blocks; b++) {
        const std::string w = fmt::format("h.{}.up.weight", b);
        p.buffers.push_back({.name = w, .role = Role::parameter, .type = "float32", .shape = {8, 4}, .bytes = 128});
        PlanCall next{.kernel = 0,
                      .name = "next(" + w + ")",
                      .stages = {{"d(" + w + ")", "root", ""}, {"next(" + w + ")", "root", ""}}};
        if (std::ranges::count(separate, b)) next.stages.erase(next.stages.begin());
        p.plans[entry::step].push_back(next);
    }
    return p;
}

}  // namespace

TEST_CASE("explain: rows of blocks are one where they are equal, and have a star where they are several") {
    CHECK(merged({{"h.0.up", "a"}, {"ln_f", "b"}, {"h.1.up", "a"}}) == "h.*.up x2 of 0;ln_f x1 of 1;");
    CHECK(merged({{"h.0.up", "a"}, {"ln_f", "a"}}) == "h.0.up x1 of 0;ln_f x1 of 1;");
    CHECK(merged({{"h.0.up", "at h.0.x"}, {"h.1.up", "at h.1.x"}}) == "h.*.up x2 of 0;");
    CHECK(merged({{"h.0.up", "a"}, {"h.1.up", "b"}, {"h.2.up", "a"}}) == "h.*.up (0, 2) x2 of 0;h.1.up x1 of 1;");
    CHECK(merged({{"act", "a"}, {"act", "a"}, {"h.0.act", "a"}, {"h.0.act", "a"}}) == "act x2 of 0;h.0.act x2 of 2;");
    CHECK(merged({{"s.1.b.0.w", "a"}, {"s.1.b.1.w", "a"}, {"s.2.b.0.w", "b"}}) ==
          "s.*.b.*.w (1.0, 1.1) x2 of 0;s.2.b.0.w x1 of 2;");
    std::vector<BlockRow> many = {{"h.99.up", "b"}};
    for (int b = 0; b < 12; b++) many.push_back({fmt::format("h.{}.up", b), "a"});
    CHECK(contains(merged(many), "h.*.up (0, 1, 2, 3, 4, 5, 6, 7, ...) x12"));
    CHECK(merged({}).empty());
}

TEST_CASE("explain: of several workers each has a part of an update, or one has all of it") {
    Plan p = plan_of_blocks(2);
    p.workers = 2;
    std::vector<PlanCall> &calls = p.plans[entry::step];
    for (PlanCall &c : calls) c.stages.erase(c.stages.begin()), c.worker = 0;
    calls.push_back(calls[1]), calls.back().worker = 1;
    CHECK(update_of(p, "h.0.up.weight").place == "by one worker, for all");
    CHECK(update_of(p, "h.1.up.weight").place == "in shards, by workers");
}

TEST_CASE("explain: parameters whose update is placed elsewhere have a row of their own") {
    const std::string head = "\nparameters (extents innermost first), their layout and where they are updated:\n",
                      columns = "float32  row_major                  ";
    CHECK(parameters_text(plan_of_blocks(2)) ==
          head + "  h.*.up.weight                8 x 4            2  " + columns + "with its gradient\n");
    CHECK(parameters_text(plan_of_blocks(1)) ==
          head + "  h.0.up.weight                8 x 4            1  " + columns + "with its gradient\n");
    CHECK(parameters_text(plan_of_blocks(3, {1})) ==
          head + "  h.*.up.weight (0, 2)         8 x 4            2  " + columns + "with its gradient\n" +
              "  h.1.up.weight                8 x 4            1  " + columns + "separate\n");
}

TEST_CASE("explain: small numbers have small units") {
    CHECK(flop_words(1.2345e12) == "1234.500 GFLOP");
    CHECK(flop_words(2e9) == "2.000 GFLOP");
    CHECK(flop_words(4.5e5) == "450.000 kFLOP");
    CHECK(flop_words(1.5e6) == "1.500 MFLOP");
    CHECK(flop_words(12) == "12 FLOP");
    CHECK(column_unit(5e6, "FLOP").name == "MFLOP");
    CHECK(column_unit(5e4, "B").name == "kB");
    CHECK(column_unit(0, "B").name == "B");
}

}  // namespace cryolite::test
