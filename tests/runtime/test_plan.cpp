// plan.json: what is read is written, what is as a new plan has it is left out, and what no plan says is refused.

#include <nlohmann/json.hpp>

#include "bundle/matrix_tiles.h"
#include "bundle/plan_json.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

/// Of one kernel, with each member that a file may leave out.
Plan full_plan() {
    Plan p;
    p.device = "cuda", p.capability = 80, p.task = "features", p.workers = 2, p.parts = 4;
    p.arena = 64, p.arena_unshared = 128, p.loss = 0, p.output = 0;
    p.terms = {{"criterion", 0}}, p.evaluation = {.loss = 0, .row_weights = 1, .terms = {0}};
    p.spared = {4, 8, 2.5};
    p.ids = {{.loss = "criterion", .input = 2, .classes = 3, .ignored = -1, .class_weights = 4, .mean_weight = 5}};
    p.scalar_names = {"step", "lr"}, p.scalar_values = {1, 0.1};
    p.groups = {{.at = 2, .settings = {{"lr", 0.5, true}}, .texts = {"w=lr:0.5x"}, .parameters = {3}}};
    p.buffers = {{.name = "loss", .role = Role::activation, .type = "float32", .shape = {1}, .bytes = 4, .offset = 0},
                 {.name = "row_weights", .role = Role::input, .type = "float32", .shape = {3}, .bytes = 12},
                 {.name = "targets", .role = Role::input, .type = "int32", .shape = {3}, .bytes = 12},
                 {.name = "w",
                  .role = Role::parameter,
                  .type = "float32",
                  .shape = {3, 5},
                  .bytes = 96,
                  .layout = {8, 1},
                  .frozen = "freeze(w)",
                  .of_layer = true,
                  .init = {"normal", 0.02},
                  .format_why = "no product reads it"},
                 {.name = "classes",
                  .role = Role::input,
                  .type = "float32",
                  .shape = {3},
                  .bytes = 12,
                  .constant = {1, 0.1f, 2}},
                 {.name = "mean", .role = Role::input, .type = "float32", .shape = {1}, .bytes = 4},
                 {.name = "w",
                  .role = Role::gradient,
                  .type = "float32",
                  .shape = {3, 5},
                  .bytes = 96,
                  .parameter = 3,
                  .layout = {8, 1}},
                 {.name = "w",
                  .role = Role::partial,
                  .type = "float32",
                  .shape = {3, 5},
                  .bytes = 96,
                  .parameter = 3,
                  .level = 0,
                  .layout = {8, 1}},
                 {.name = "w",
                  .role = Role::share,
                  .type = "float32",
                  .shape = {3, 5},
                  .bytes = 96,
                  .parameter = 3,
                  .worker = 1,
                  .stored = false,
                  .layout = {8, 1}},
                 {.name = "scalars", .role = Role::scalars, .type = "float64", .shape = {4}, .bytes = 32},
                 {.name = "b",
                  .role = Role::parameter,
                  .type = "float32",
                  .shape = {3},
                  .bytes = 12,
                  .part_of = 11,
                  .begin = 16,
                  .init = {"constant", 0}},
                 {.name = "b and 1 more", .role = Role::joint, .type = "float32", .shape = {32}, .bytes = 128}};
    p.kernels = {
        {.symbol = "k", .loops = "pointwise", .layer = "ReLU", .form = "forward", .args = {{"float32", {1}, true}}}};
    const Product product{.rows = 1, .in = 1, .out = 1, .weight = 0, .x = 1, .stores = 2};
    p.kernels.push_back({.loops = "product",
                         .layer = "Linear",
                         .form = "forward",
                         .args = {{"float32", {1}, false}, {"float32", {1}, false}, {"float32", {1}, true}},
                         .dialects = {{"onednn", product}}});
    p.plans["forward"] = {{.kernel = 0,
                           .name = "relu",
                           .pass = "forward",
                           .stages = {{"relu", "root", "a line"}},
                           .args = {{0, 0}},
                           .workspace = 0,
                           .flops = 3,
                           .extra_flops = 1.5,
                           .bytes = 4,
                           .why = "it can"}};
    p.plans["evaluate"] = p.plans["first"] = p.plans["forward"];
    p.plans["step"] = {
        {.kernel = -1, .worker = 1, .sum = 8, .name = "sum(d(w))", .pass = "update", .args = {{6, 8}}, .bytes = 96}};
    return p;
}

json full_json() { return json::parse(plan_text(full_plan())); }

std::string refusal_of(const json &plan) {
    return error_of([&] { read_plan(plan.dump(), "plan.json"); });
}

}  // namespace

TEST_CASE("plan: the names of loops say whether a step multiplies by tiles") {
    Plan p = full_plan();
    CHECK(!p.multiplies_by_tiles());
    p.kernels.back().loops += by_tiles;
    CHECK(p.multiplies_by_tiles());
}

TEST_CASE("plan: what is written is read, and written the same") {
    const std::string text = plan_text(full_plan());
    CHECK(plan_format(text) == "5");
    CHECK(plan_text(read_plan(text, "plan.json")) == text);
    const Plan p = read_plan(text, "plan.json");
    CHECK(p.buffers[3].layout == PanelLayout{8, 1});
    CHECK(p.buffers[3].init == PlanInit{"normal", 0.02});
    CHECK(p.buffers[4].constant == std::vector<float>{1, 0.1f, 2});
    CHECK(p.buffers[7].role == Role::partial);
    CHECK(p.buffers[7].level == 0);
    CHECK(p.buffers[8].worker == 1);
    CHECK(!p.buffers[8].stored);
    CHECK(p.buffers[10].part_of == 11);
    CHECK(p.buffers[10].begin == 16);
    CHECK(p.kernels[0].chosen == -1);
    CHECK(p.kernels[1].chosen == 0);
    CHECK(p.kernels[1].dialects[0].product.stores == 2);
    CHECK(p.ids[0].ignored == -1);
    CHECK(p.plans.at("step")[0].sum == 8);
    CHECK(p.plans.at("forward")[0].stages[0].why == "a line");
}

TEST_CASE("plan: files of the fuzzer's corpus are written as they were") {
    for (const char *name : {"bf16", "parts", "workers"}) {
        const std::string text = read_file(source_file("tests/fuzz/corpus/plan") / name);
        CHECK_MESSAGE(json::parse(plan_text(read_plan(text, name))) == json::parse(text), name);
    }
}

TEST_CASE("plan: members that are as a new plan has them are not in its file") {
    const json full = full_json(), &loss = full["buffers"][0], &input = full["buffers"][1],
               &sum = full["plans"]["step"][0];
    for (const char *member : {"parameter", "worker", "level", "part_of", "begin", "stored", "layout", "frozen",
                               "of_layer", "init", "constant", "format_why"})
        CHECK_MESSAGE(!loss.contains(member), member);
    CHECK(loss.contains("offset"));
    CHECK(!input.contains("offset"));
    for (const char *member : {"workspace", "extra_flops", "why"}) CHECK_MESSAGE(!sum.contains(member), member);
    CHECK(sum["flops"].dump() == "0.0");
    CHECK(full["ids"][0]["ignored"].dump() == "-1");
    CHECK(!full["kernels"][1].contains("symbol"));
    CHECK(!full["kernels"][0].contains("dialects"));
    const json empty = json::parse(plan_text({}));
    for (const char *member : {"parts", "capability", "spared", "groups", "terms"})
        CHECK_MESSAGE(!empty.contains(member), member);
    for (const char *member : {"device", "workers", "ids", "kernels", "buffers", "plans"})
        CHECK_MESSAGE(empty.contains(member), member);
}

TEST_CASE("plan: a plan without calls is none") {
    json plan = full_json();
    plan["plans"]["flush"] = json::array();
    CHECK(!read_plan(plan.dump(), "plan.json").plans.contains("flush"));
}

TEST_CASE("plan: what no plan says is refused") {
    CHECK(refusal_of(full_json()).empty());
    const auto refused = [](const char *place, const json &value) {
        json plan = full_json();
        plan[json::json_pointer(place)] = value;
        return refusal_of(plan);
    };
    CHECK(refused("/buffers/0/role", "weights") == "the plan plan.json is damaged: \"weights\" is no role of an array");
    CHECK(refused("/format", 4) ==
          "the plan plan.json is damaged: its format is 4, expected 5: it is another version's; "
          "build again with ./cryolite");
    CHECK(refused("/buffers/0/bytes", 4.5) ==
          "the plan plan.json is damaged: it has \"4.5\" where a whole number is expected");
    CHECK(refused("/arena", json(uint64_t(1) << 63)).ends_with("where a whole number is expected"));
    const char *lacks = "the plan plan.json is damaged: it is not JSON, or lacks what a plan has";
    CHECK(refused("/buffers", json::object()) == lacks);
    CHECK(refused("/plans", json::array()) == lacks);
    CHECK(refused("/kernels/0/args", 3) == lacks);
    CHECK(refused("/evaluation", json::object()) == lacks);
    for (const char *member : {"task", "arena", "buffers", "kernels", "plans", "ids", "evaluation", "format"}) {
        json plan = full_json();
        plan.erase(member);
        CHECK_MESSAGE(refusal_of(plan) == lacks, member);
    }
    CHECK(error_of([] { read_plan("{", "plan.json"); }) == lacks);
    CHECK(plan_format("{") == "?");
}

TEST_CASE("plan: parts of joint buffers lie inside of them, in their format") {
    const auto refused = [](const char *place, const json &value) {
        json plan = full_json();
        plan[json::json_pointer(place)] = value;
        return refusal_of(plan);
    };
    const std::string damaged = "the plan plan.json is damaged: ",
                      outside = damaged + "'b' reaches past the end of 'b and 1 more'";
    CHECK(refused("/buffers/10/begin", 29) == "");
    CHECK(refused("/buffers/10/begin", 30) == outside);
    CHECK(refused("/buffers/10/begin", -1) == outside);
    CHECK(refused("/buffers/10/part_of", 9)
              .starts_with(damaged + "'b', a parameter of float32, is no part of 'scalars'"));
    CHECK(refused("/buffers/10/part_of", 12).starts_with(damaged + "'b' names the buffer 12 of 12"));
    CHECK(refused("/buffers/11/stored", false).starts_with(damaged + "'b', a parameter of float32, is no part of"));
    CHECK(refused("/buffers/11/type", "uint32").find("a joint of uint32") != std::string::npos);
    CHECK(refused("/buffers/11/part_of", 11).find("is no part of") != std::string::npos);
    CHECK(full_plan().memory().count("joint") == 0);
    CHECK(full_plan().memory().at("parameter") == 96 + 12);
}

TEST_CASE("plan: a gradient that has a place in the arena lies inside of it, and takes no memory beside it") {
    json plan = full_json();
    plan["plans"]["step"] = json::array();
    plan["plans"]["forward"][0]["args"] = {{6, 0}};
    plan["arena"] = 96;
    CHECK(refusal_of(plan).empty());
    plan["buffers"][6]["offset"] = 0;
    CHECK(refusal_of(plan).empty());
    CHECK(read_plan(plan.dump(), "plan.json").buffers[6].in_arena());
    CHECK(json::parse(plan_text(read_plan(plan.dump(), "plan.json")))["buffers"][6]["offset"] == 0);
    plan["buffers"][6]["offset"] = 4;
    CHECK(refusal_of(plan) == "the plan plan.json is damaged: 'w' lies outside of the arena");
    CHECK(!full_plan().buffers[6].in_arena());
    Plan p = full_plan();
    const int64_t apart = p.memory().at("gradient");
    p.buffers[6].offset = 0;
    CHECK(apart - p.memory()["gradient"] == 2 * 96);  // of two workers
}

TEST_CASE("roles: each has a name") {
    for (int r = 0; r <= int(Role::joint); r++) CHECK(role_named(role_name(Role(r))) == Role(r));
    CHECK(json(Role::master_low) == "master_low");
    CHECK(error_of([] { role_named(""); }) == "\"\" is no role of an array");
}

}  // namespace cryolite::test
