// What is said of a plan before it trains: of a model that makes another number of scores than its data have.

#include "apps/cryolite/report/notes.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// One kernel makes the output, in the shape [scores, rows], and the loss beside it.
Plan plan_of(int scores, const std::vector<std::string> &stages, const char *pass = entry::forward) {
    Plan p;
    p.buffers = {{.name = "x", .role = Role::input, .type = "float32", .shape = {4, 3}},
                 {.name = "output", .role = Role::activation, .type = "float32", .shape = {scores, 3}}};
    p.output = 1;
    p.ids = {{.loss = "loss", .input = 0, .classes = scores, .ignored = {}}};
    p.kernels = {{.symbol = "k", .args = {{"float32", {4, 3}, false}, {"float32", {scores, 3}, true}}}};
    PlanCall call{.kernel = 0, .name = stages[0], .args = {{0, 0}, {1, 0}}};
    for (const std::string &s : stages) call.stages.push_back({s, "root", ""});
    p.plans[pass] = {call};
    return p;
}

}  // namespace

TEST_CASE("notes: a model that makes another number of scores than there are tokens is told which layer made them") {
    CHECK(scores_warning(plan_of(65, {"head"}), 65, "tokens in the vocabulary").empty());
    CHECK(scores_warning(plan_of(65, {"head"}), 0, "tokens in the vocabulary").empty());
    CHECK(scores_warning(Plan{}, 65, "classes").empty());
    CHECK(
        scores_warning(plan_of(128, {"ln_f", "loss"}), 65, "tokens in the vocabulary") ==
        "warning: the model's output, which [ln_f] makes, has 128 values for each row, and there are 65 tokens in the "
        "vocabulary: that is well where a head is padded on purpose, else forward() has forgotten its head");
    CHECK(contains(scores_warning(plan_of(128, {"up", "act"}, entry::predict), 65, "classes"), "which [act] makes,"));
    CHECK(
        scores_warning(plan_of(6, {"first"}, entry::step), 10, "classes") ==
        "warning: the model's output has 6 values for each row, and there are 10 classes: has forward() forgotten its "
        "head?");
}

TEST_CASE("notes: a run that ends within its warm-up") {
    CHECK(warmup_note({.high = 1e-3, .low = 0, .warmup = 9, .steps = 10}).empty());
    CHECK(
        warmup_note({.high = 1e-3, .low = 0, .warmup = 9, .steps = 9}) ==
        "note: the learning rate rises for 9 steps, of which the run has 9, and ends at 0.0009 instead of 0.001: give "
        "a shorter --warmup");
}

}  // namespace cryolite::test
