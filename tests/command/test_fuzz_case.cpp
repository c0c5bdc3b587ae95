// Cases of the fuzzer as text, how they are drawn and how they are made smaller: nothing is compiled.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "apps/cryolite/fuzz/compare_training.h"
#include "apps/cryolite/fuzz/shrink.h"
#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

namespace cryolite::test {

TEST_CASE("fuzz: a case is the same after it was written and read") {
    for (uint64_t n = 0; n < 200; n++) {
        const FuzzCase c = draw_variant(draw_model(7, n / 5), 7, n);
        CAPTURE(text_of(c));
        CHECK(read_fuzz_case(text_of(c)) == c);
        CHECK(c.micro_batch() * c.step.accumulate * c.step.workers == c.examples);
    }
    CHECK(text_of(FuzzCase{}) == "choices=0");
}

TEST_CASE("fuzz: what is no case is refused by name") {
    CHECK_THROWS_WITH_AS(read_fuzz_case("choice=1"), doctest::Contains("\"choice\""), UsageError);
    CHECK_THROWS_WITH_AS(read_fuzz_case("vocab=x"), doctest::Contains("whole number from 5 to 256"), UsageError);
    CHECK_THROWS_WITH_AS(read_fuzz_case("update=sideways"), doctest::Contains("auto or separate"), UsageError);
    CHECK_THROWS_WITH_AS(read_fuzz_case("examples=3 workers=2"), doctest::Contains("3 examples"), UsageError);
}

TEST_CASE("fuzz: a seed draws the same cases, and they differ in all that they may") {
    std::set<std::string> updates, formats, optimizers;
    std::set<int> workers, accumulate, kinds, memory;
    std::set<size_t> sizes, left_out;
    for (uint64_t n = 0; n < 400; n++) {
        const FuzzCase c = draw_variant(draw_model(1, n), 1, n);
        CHECK(c == draw_variant(draw_model(1, n), 1, n));
        updates.insert(c.step.update), formats.insert(c.step.precision), optimizers.insert(c.step.optimizer);
        workers.insert(c.step.workers), accumulate.insert(c.step.accumulate), kinds.insert(c.kind);
        memory.insert(c.memory), sizes.insert(c.choices.size()), left_out.insert(std::min<size_t>(c.without.size(), 1));
    }
    CHECK(updates.size() == 4);
    CHECK(formats == std::set<std::string>{"fp32", "bf16", "fp16"});
    CHECK(optimizers.size() == 3);
    CHECK(workers.size() == 2);
    CHECK(accumulate.size() >= 3);
    CHECK(kinds.size() == 3);
    CHECK(memory.size() == 4);
    CHECK(sizes.size() == 5);
    CHECK(left_out.size() == 2);
}

TEST_CASE("fuzz: variants of a model train what it trains") {
    const FuzzCase model = draw_model(3, 4);
    for (uint64_t n = 0; n < 20; n++) {
        const FuzzCase c = draw_variant(model, 3, n);
        CHECK(c.choices == model.choices);
        CHECK(c.examples == model.examples);
        CHECK(c.step.optimizer == model.step.optimizer);
        CHECK(c.step.clip == model.step.clip);
        CHECK(c.data == model.data);
    }
}

TEST_CASE("fuzz: a failure is shrunk to what it needs") {
    const FuzzCase large = read_fuzz_case(
        "choices=9.8.7.6/1.2.3/40.50.60/70.80.90/5.5.5 examples=8 context=16 vocab=32 workers=2 accumulate=2 "
        "update=backward precision=bf16 clip=0.5 memory=60 without=3.4");
    int asked = 0;
    // It needs a layer whose first number is 40 and any update but the separate one.
    auto fails = [&](const FuzzCase &c) {
        asked++;
        const bool layer =
            std::ranges::any_of(c.choices, [](const auto &group) { return !group.empty() && group[0] == 40; });
        return layer && c.step.update != "separate";
    };
    const FuzzCase least = shrink(large, fails, 1000);
    CHECK(text_of(least) == "choices=0/40 update=backward");
    CHECK(asked < 200);

    asked = 0;
    CHECK(fails(shrink(large, fails, 10)));
    CHECK(asked <= 11);
}

TEST_CASE("fuzz: shrinking never makes a step that cannot be shared") {
    FuzzCase c = read_fuzz_case("choices=1/2/3 examples=6 workers=2 accumulate=3");
    const FuzzCase least = shrink(
        c,
        [](const FuzzCase &s) {
            CHECK(s.micro_batch() * s.step.accumulate * s.step.workers == s.examples);
            return s.step.workers == 2;
        },
        1000);
    CHECK(text_of(least) == "choices=0 examples=2 workers=2");
}

TEST_CASE("fuzz: how far a training is from its reference") {
    using nlohmann::json;
    const json reference = {{"losses", {2.0, 1.0}},
                            {"evaluation", 0.5},
                            {"parameters", {{"w", {1.0, 2.0}}, {"b", {0.1}}}},
                            {"gradients", {{"w", 1.0}, {"b", 1e-9}}}};
    json trained = {{"losses", {2.0, 1.0}},
                    {"evaluation", 0.5},
                    {"initial", {{"w", {0.0, 2.0}}, {"b", {0.0}}}},
                    {"parameters", {{"w", {1.0, 2.0}}, {"b", {-0.1}}}}};
    const StepConfig fp32;
    CHECK(
        too_far(distance_of(trained, reference, fp32), tolerance_of(fp32)).empty());  // b is of a gradient that is none

    trained["parameters"]["w"] = {0.9, 2.0};
    CHECK(distance_of(trained, reference, fp32).weights == doctest::Approx(0.1).epsilon(0.01));
    CHECK(too_far(distance_of(trained, reference, fp32), tolerance_of(fp32)).find("'w'") != std::string::npos);

    trained["parameters"]["w"] = {1.0, nullptr};
    CHECK(std::isinf(distance_of(trained, reference, fp32).weights));
    trained["parameters"]["w"] = {1.0, 2.0}, trained["losses"][1] = 1.1;
    CHECK(distance_of(trained, reference, fp32).losses == doctest::Approx(0.1).epsilon(0.01));
    CHECK(too_far(distance_of(trained, reference, fp32), tolerance_of(fp32)).find("losses") != std::string::npos);
}

TEST_CASE("fuzz: losses count until training diverges") {
    using nlohmann::json;
    const auto off = [](std::vector<double> ours, std::vector<double> theirs, const char *precision) {
        json trained, reference;
        trained["evaluation"] = ours.back(), reference["evaluation"] = theirs.back();
        ours.pop_back(), theirs.pop_back();
        trained["losses"] = ours, reference["losses"] = theirs;
        trained["parameters"] = reference["parameters"] = reference["gradients"] = json::object();
        return distance_of(trained, reference, {.precision = precision}).losses;
    };
    CHECK(off({2, 3, 8}, {2, 3, 5}, "bf16") == 0);
    CHECK(off({2, 3, 8}, {2, 3, 5}, "fp32") == doctest::Approx(0.6).epsilon(1e-3));
    CHECK(off({2, 3, 4.5}, {2, 3, 3}, "bf16") == doctest::Approx(0.5).epsilon(1e-3));
    CHECK(off({2, 3, INFINITY}, {2, 3, 1e7}, "fp32") == 0);
    CHECK(off({2, 3, 5}, {2, 3, NAN}, "fp32") == 0);
    CHECK(std::isinf(off({2, 3, INFINITY}, {2, 3, 1e5}, "fp32")));
    CHECK(off({2, 150, 3}, {2, 3, 3}, "bf16") > 40);  // where ours alone diverges
}

}  // namespace cryolite::test
