// The first value of a step that is not finite, found by steps whose calls are watched one by one.

#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

json tiny(const json &with = json::object()) {
    json args = {{"layers", 1}, {"heads", 2}, {"width", 16}, {"context", 8},
                 {"vocab", 65}, {"batch", 2}, {"lr", 1e-3},  {"clip", 1.0}};
    args.update(with);
    return args;
}

std::string first(Trainer &t) {
    const auto found = t.first_not_finite();
    return found ? found->words(t.plan()) : "";
}

void poison(TrainingCase &c, const std::string &parameter, float value) {
    std::vector<float> w = c.values(Role::parameter, parameter);
    w[3] = value;
    c.set_values(parameter, w);
}

}  // namespace

TEST_CASE("not finite: watched steps have the same bits, and nothing is found where all is well") {
    struct Case {
        json args;
        const char *flags;
    };
    for (const auto &[args, flags] : {Case{tiny({{"accumulate", 2}}), "--precision fp32 --update backward"},
                                      Case{tiny(), "--precision bf16 --update forward"},
                                      Case{tiny({{"workers", 2}}), "--precision fp32 --update auto"}}) {
        CAPTURE(flags);
        TrainingCase plain(args, flags), watched(args, flags);
        CHECK(plain.step() == watched.step());
        watched.trainer.watch_values();
        for (int k = 0; k < 3; k++) CHECK(plain.step() == watched.step());
        CHECK(first(watched.trainer) == "");
        CHECK(plain.values(Role::parameter, "wte.weight") == watched.values(Role::parameter, "wte.weight"));
    }
}

TEST_CASE("not finite: the first value is named with its layer, its quantity and its pass") {
    for (const std::string precision : {"fp32", "bf16"}) {
        CAPTURE(precision);
        TrainingCase c(tiny(), "--precision " + precision);
        c.step();
        poison(c, "h.0.mlp.c_fc.bias", INFINITY);
        if (precision == "bf16") c.step();  // is withheld, and leaves its results behind
        c.trainer.watch_values();
        c.step();
        CHECK(first(c.trainer) ==
              "inf, at element 3 of the output of 'h.0.mlp.c_fc', which 'h.0.mlp.c_fc + h.0.mlp.act' of "
              "the forward pass writes");
    }
}

TEST_CASE("not finite: among workers it is the one that comes first") {
    TrainingCase c(tiny({{"workers", 2}}), "--precision fp32");
    poison(c, "h.0.attn.c_attn.bias", NAN);
    c.trainer.watch_values();
    c.step();
    CHECK(first(c.trainer).starts_with("nan, at element 3 of the output of 'h.0.attn.c_attn'"));
}

TEST_CASE("not finite: a square may be the first") {
    TrainingCase c(tiny({{"clip", 0.0}}), "--precision fp32 --update separate");
    // The gradient of the table is finite, the mean of its squares is not.
    poison(c, "ln_f.bias", 2e38f);
    c.trainer.watch_values();
    c.step();
    CHECK(
        first(c.trainer).ends_with("of the optimizer's 'wte.weight.exp_avg_sq', which 'next(wte.weight)' of the update "
                                   "pass writes"));
}

TEST_CASE("withheld: updates in a row are counted until one is done, and go on from a checkpoint's number") {
    TrainingCase c(tiny(), "--precision bf16 --update forward");
    c.step();
    CHECK(c.trainer.withheld_in_a_row() == 0);
    const std::vector<float> good = c.values(Role::parameter, "ln_f.weight");
    poison(c, "ln_f.weight", INFINITY);
    for (uint64_t k = 1; k <= 3; k++) {
        c.step();
        CHECK(c.trainer.withheld_in_a_row() == k);
    }
    c.trainer.set_withheld_in_a_row(7);
    c.step();
    CHECK(c.trainer.withheld_in_a_row() == 8);
    c.set_values("ln_f.weight", good);
    c.step();
    CHECK(c.trainer.withheld_in_a_row() == 0);
    CHECK(c.trainer.withheld() == 4);
}

TEST_CASE("withheld: forgotten steps are as if they had never been") {
    TrainingCase c(tiny(), "--precision bf16"), fresh(tiny(), "--precision bf16");
    c.trainer.initialise(1), fresh.trainer.initialise(1);
    const std::vector<float> none = c.values(Role::state, "wte.weight.exp_avg");
    for (int k = 0; k < 2; k++) c.step();
    CHECK(c.values(Role::state, "wte.weight.exp_avg") != none);
    c.trainer.forget_steps();
    c.trainer.initialise(1);
    CHECK(c.values(Role::state, "wte.weight.exp_avg") == none);
    CHECK(c.trainer.steps() == 0);
    fresh.skip(), fresh.skip(), fresh.trainer.set_steps(0);
    CHECK(c.step() == fresh.step());
    CHECK(c.values(Role::parameter, "wte.weight") == fresh.values(Role::parameter, "wte.weight"));
}

}  // namespace cryolite::test
