// Where stages are placed changes no value: the same bits without clipping; with it, the order of additions of a norm.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Run {
    std::vector<double> losses;
    std::map<std::string, std::vector<float>> weights;
    int64_t kept = 0, arena = 0;  ///< bytes
};

Run train(const json &args, const std::string &flags, int steps) {
    TrainingCase c(args, flags);
    Run r;
    for (int s = 0; s < steps; s++) r.losses.push_back(c.step());
    r.arena = c.trainer.plan().arena;
    for (auto &[role, bytes] : c.trainer.plan().memory()) r.kept += role == "activation" ? 0 : bytes;
    for (const std::string &name : c.parameters()) r.weights[name] = c.values(Role::parameter, name);
    return r;
}

void check_same(const Run &a, const Run &b, bool bits, double tolerance = 1e-6) {
    for (size_t s = 0; s < a.losses.size(); s++) {
        CAPTURE(s);
        if (bits)
            CHECK(a.losses[s] == b.losses[s]);
        else
            CHECK(std::abs(a.losses[s] - b.losses[s]) <= tolerance * a.losses[s]);
    }
    if (bits)
        for (auto &[name, w] : a.weights) {
            CAPTURE(name);
            CHECK(w == b.weights.at(name));
        }
}

int long_steps() {
    const char *text = std::getenv("CRYOLITE_PLACEMENT_STEPS");
    return text ? std::atoi(text) : 30;
}

}  // namespace

static void check_update_modes(int width, double clip, int accumulate) {
    json args = {{"layers", 2},
                 {"heads", width == 16 ? 2 : 3},
                 {"width", width},
                 {"context", 13},
                 {"batch", 2},
                 {"vocab", 37},
                 {"lr", 1e-2},
                 {"clip", clip},
                 {"accumulate", accumulate}};
    Run plain = train(args, "--update separate", 5);
    auto budget = [](const Run &r) { return fmt::format(" --budget {}", r.kept + r.arena * 8 / 10); };
    Run small = train(args, "--update separate" + budget(plain), 5);
    CHECK(small.arena < plain.arena);
    check_same(plain, small, true);
    const std::string forward = "--update forward";  // gradients outlive their step, and have memory of their own
    for (const std::string &flags : {std::string("--update backward"), forward, std::string("--update auto"),
                                     forward + budget(train(args, forward, 1))}) {
        CAPTURE(flags);
        CAPTURE(width);
        CAPTURE(clip);
        CAPTURE(accumulate);
        // Clipped and accumulated, `backward` places nothing inside: the norm needs the sums.
        const bool ghost = clip > 0 && accumulate == 1 && flags.find("forward") == std::string::npos;
        check_same(plain, train(args, flags, 5), !ghost);
    }
}

TEST_CASE("placements: every update mode, clipped, or accumulated, with or without storing activations") {
    check_update_modes(21, 0.7, 1);
    check_update_modes(21, 0, 3);
}

TEST_CASE("placements: every update mode, on even and odd shapes, clipped or not, accumulated or not" * slow()) {
    for (double clip : {0.0, 0.7})
        for (int accumulate : {1, 3}) {
            check_update_modes(16, clip, accumulate);
            if ((clip > 0) == (accumulate > 1)) check_update_modes(21, clip, accumulate);
        }
}

static void check_blocks(const std::string &precision, double clip, int accumulate) {
    json args = {{"layers", 1}, {"heads", 3}, {"width", 21},  {"context", 37},           {"batch", 3},
                 {"vocab", 53}, {"lr", 1e-2}, {"clip", clip}, {"accumulate", accumulate}};
    const std::string format = " --precision " + precision;
    const Run whole = train(args, "--update separate --head-rows 0" + format, 5);
    for (const std::string &flags : {std::string("--update separate"), std::string("--update backward"),
                                     std::string("--update forward"), std::string("--update separate --group none"),
                                     fmt::format("--update separate --budget {}", whole.kept + whole.arena * 8 / 10)}) {
        CAPTURE(flags);
        CAPTURE(precision);
        CAPTURE(clip);
        CAPTURE(accumulate);
        // Where a sum's order is another, an adjoint may be rounded to the other side.
        check_same(whole, train(args, flags + " --head-rows 32" + format, 5), false, precision == "bf16" ? 3e-5 : 1e-6);
    }
}

TEST_CASE("placements: the head and its loss by blocks of rows, the last one ragged") { check_blocks("fp32", 0.7, 2); }

TEST_CASE("placements: the head and its loss by blocks of rows, in bf16, clipped or not, accumulated or not" * slow()) {
    for (const char *precision : {"fp32", "bf16"})
        for (double clip : {0.0, 0.7})
            for (int accumulate : {1, 2}) check_blocks(precision, clip, accumulate);
}

TEST_CASE("placements: chunks of the head evaluate and predict as the whole head does, and take less memory") {
    json args = {{"layers", 1}, {"heads", 2}, {"width", 16}, {"context", 32}, {"batch", 4}, {"vocab", 401}};
    TrainingCase whole(args, "--head-rows 0"), blocks(args, "--head-rows 32");
    for (int rows : {4, 3}) {
        CHECK(whole.trainer.evaluate(whole.batch(5), rows) ==
              doctest::Approx(blocks.trainer.evaluate(blocks.batch(5), rows)).epsilon(1e-6));
        const auto a = whole.trainer.predict(whole.batch(5), rows), b = blocks.trainer.predict(blocks.batch(5), rows);
        REQUIRE(a.size() == b.size());
        CHECK(std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) { return std::abs(x - y) < 1e-6f; }));
    }
    // The logits' gradient beside them is what the whole head has at once.
    CHECK(blocks.trainer.plan().arena < whole.trainer.plan().arena * 3 / 4);
}

static void check_rules(std::initializer_list<std::string> rules) {
    json args = {{"layers", 2}, {"heads", 3},  {"width", 21}, {"context", 13},
                 {"batch", 2},  {"vocab", 37}, {"lr", 1e-3}};
    for (const std::string &rule : rules)
        for (double clip : {0.0, 0.7}) {
            args["clip"] = clip;
            const std::string with = " --optimizer " + rule;
            CAPTURE(rule);
            CAPTURE(clip);
            Run plain = train(args, "--update separate" + with, 5);
            // Norms from inner products add in another order; Lion's sign may turn where they differ.
            Run fused = train(args, "--update backward" + with, 5);
            CHECK(fused.kept < plain.kept);
            check_same(plain, fused, clip == 0 && rule != "lars");
            check_same(plain, train(args, "--update forward" + with, 5), true);
        }
}

TEST_CASE("placements: a rule that takes norms") { check_rules({"lars"}); }
TEST_CASE("placements: every other rule" * slow()) { check_rules({"sgd", "lion"}); }

TEST_CASE("placements: nano, step after step (CRYOLITE_PLACEMENT_STEPS of them, else 30)" * slow()) {
    json args = {{"layers", 4}, {"heads", 4},  {"width", 128}, {"context", 64},
                 {"batch", 12}, {"vocab", 65}, {"lr", 1e-3}};
    Run plain = train(args, "--update separate", long_steps());
    check_same(plain, train(args, "--update backward", long_steps()), true);
    check_same(plain, train(args, "--update forward", long_steps()), true);
}

}  // namespace cryolite::test
