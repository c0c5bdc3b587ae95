// What a search over lines tries: which lines a step could have, as text, and what legality says of each.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "dsl/models/gpt.h"
#include "generators/codegen/kernel_store.h"
#include "generators/driver/trials/line_trials.h"
#include "generators/passes/legality.h"
#include "generators/passes/moves/step_moves.h"
#include "schedules/lines.h"
#include "schedules/models/gpt.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

using nlohmann::json;
using Flags = std::vector<std::pair<std::string, std::string>>;
const Flags two_blocks = {{"layers", "2"},   {"heads", "2"}, {"width", "32"},
                          {"context", "32"}, {"batch", "4"}, {"vocab", "19"}};

Compiled<Gpt> gpt(const std::string &lines, const Compiled<Gpt>::Schedule &schedule = {},
                  const Flags &flags = two_blocks) {
    return Compiled<Gpt>(flags, [&](Gpt &net, Step &s) {
        if (schedule) schedule(net, s);
        add_lines(s, net, lines, "move");
    });
}

std::vector<StepMove> moves(const std::string &lines, const Compiled<Gpt>::Schedule &schedule = {},
                            const Flags &flags = two_blocks) {
    Compiled<Gpt> c = gpt(lines, schedule, flags);
    return moves_of(c.program);
}

bool has(const std::vector<StepMove> &moves, const std::string &line) {
    return std::ranges::count(moves, line, &StepMove::line) == 1;
}

}  // namespace

TEST_CASE("step moves: of all blocks at once, those that save most bytes first, each once") {
    const std::vector<StepMove> list = moves("");
    CHECK(list.front().line == "s.automatic()");
    CHECK(has(list, "s(h.*.mlp.act).compute_with(h.*.mlp.c_fc)"));
    CHECK(has(list, "s(d(h.*.mlp.act)).compute_at(d(h.*.mlp.c_fc))"));
    CHECK(has(list, "s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight))"));
    CHECK(has(list, "s(next(wte.weight)).compute_at(forward)"));
    CHECK(has(list, "s(h.*.mlp.act).store_at(forward)"));
    CHECK(!has(list, "s(h.0.mlp.act).store_at(forward)"));
    CHECK(!has(list, "s(h.*.mlp.act).compute_root()"));  // it is there already
    for (size_t i = 0; i < list.size(); i++) {
        CHECK(has(list, list[i].line));
        if (i > 0) CHECK(list[i].bytes <= list[i - 1].bytes);
    }
}

TEST_CASE("step moves: what a step has is taken apart, and no move is what it has") {
    const std::vector<StepMove> list = moves(
        "s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight)); s(next(wte.weight)).compute_at(forward)",
        [](Gpt &net, Step &s) { schedule_gpt(net, s); });
    CHECK(has(list, "s(h.*.mlp.act).compute_root()"));
    CHECK(!has(list, "s(h.*.mlp.act).compute_with(h.*.mlp.c_fc)"));
    CHECK(has(list, "s(d(h.*.mlp.act)).compute_root()"));
    CHECK(has(list, "s(d(h.*.mlp.c_fc.weight)).compute_root()"));
    CHECK(!has(list, "s(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight))"));
    CHECK(has(list, "s(next(wte.weight)).compute_root()"));
    CHECK(!has(moves("s.automatic()"), "s.automatic()"));
}

TEST_CASE("step moves: chunks of the head, whole again or of another size") {
    const std::vector<StepMove> whole = moves("");
    CHECK(has(whole, "s(wte.transposed).compute_at(loss, 32)"));
    CHECK(has(whole, "s(wte.transposed).compute_at(loss, 64)"));
    CHECK(!has(whole, "s(wte.transposed).compute_at(loss, 128)"));  // all rows
    const std::vector<StepMove> blocks = moves("s(wte.transposed).compute_at(loss, 32)");
    CHECK(has(blocks, "s(wte.transposed).compute_root()"));
    CHECK(!has(blocks, "s(wte.transposed).compute_at(loss, 32)"));
}

TEST_CASE("step moves: each is a line that can be read, legal or refused by a rule") {
    Flags one_block = two_blocks;
    one_block[0].second = "1";
    int legal = 0, refused = 0;
    for (const StepMove &m : moves("", {}, one_block)) {
        try {
            gpt(m.line, {}, one_block);
            legal++;
        } catch (const RefusedLine &e) {
            CHECK(std::string(e.what()).find("is refused") != std::string::npos);
            refused++;
        }
    }
    CHECK(legal > 2 * refused);
}

TEST_CASE("line trials: plans of legal lines, reasons of others, and the nearest legal line of a refusal") {
    Compiled<Gpt> c = gpt("");
    std::string folder = (std::filesystem::temp_directory_path() / "cryolite-moves-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()));
    std::map<std::string, json> told;
    const std::string refused = "s(h.*.mlp.act).compute_with(h.*.mlp.c_fc)", nearest = "s(h.0.mlp.act).compute_root()",
                      without = "s(d(h.*.mlp.act)).compute_at(d(h.*.mlp.c_fc))";
    try_lines(
        c.program, json{{"without", {without}}}.dump(),
        [&](const std::string &line) {
            if (line == refused)
                throw RefusedLine("tuned:1:1: " + line + " is refused: it is full; the nearest legal line is " +
                                  nearest);
            Plan plan;
            plan.task = "the plan of " + line;
            return plan;
        },
        folder, [&](const json &j) { told[j.at("line")] = j; });
    CHECK(told.at(refused).at("refused") == "it is full; the nearest legal line is " + nearest);
    CHECK(!told.at(refused).contains("plan"));
    CHECK(told.count(nearest) == 1);
    CHECK(told.count(without) == 0);
    const json &automatic = told.at("s.automatic()");
    CHECK(automatic.at("bytes") > 0);
    CHECK(json::parse(read_whole(automatic.at("plan"))).at("task") == "the plan of s.automatic()");
    std::filesystem::remove_all(folder);
}

}  // namespace cryolite::test
