// Random step schedules of random models against the same models without a schedule.
// CRYOLITE_FUZZ_SEED and CRYOLITE_FUZZ_CASES choose which, and how many.

#include "tests/parity/case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

int number(const char *name, int otherwise) {
    const char *text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
}

}  // namespace

static void check_schedules(int first, int cases) {
    Scratch folder;
    int refused = 0;
    for (int seed = first; seed < first + cases; seed++) {
        CAPTURE(seed);
        static const char *modes[] = {"auto", "separate", "backward", "forward"};
        const uint64_t bits = formula_bits("flags", uint64_t(seed));
        const int accumulate = bits & 1 ? 2 : 1;
        const double clip = bits & 2 ? 0.5 : 0;
        std::string flags = fmt::format("--param seed={} --param batch=2 --param context={} --param vocab=19{}{}", seed,
                                        bits & 4    ? 5
                                        : bits & 32 ? 8
                                                    : 19,
                                        clip > 0 ? " --clip" : "", accumulate > 1 ? " --accumulate" : "");
        std::string refusal;
        auto scheduled = compile_program("tests/fuzz_model", flags + " --update " + modes[bits >> 3 & 3],
                                         folder.path / fmt::format("s{}", seed), &refusal);
        if (!scheduled) {
            CHECK(refusal.find("the nearest legal line is") != std::string::npos);
            refused++;
            continue;
        }
        auto plain = compile_program("tests/fuzz_model", flags + " --param plain=2 --update separate",
                                     folder.path / fmt::format("p{}", seed));
        const Trained a = train_bundle(plain, accumulate, clip), b = train_bundle(scheduled, accumulate, clip);
        for (size_t s = 0; s < a.losses.size(); s++) CHECK(std::abs(a.losses[s] - b.losses[s]) < 2e-5 * a.losses[s]);
        REQUIRE(a.weights.size() == b.weights.size());
        size_t far = 0, all = 0;
        for (size_t w = 0; w < a.weights.size(); w++)
            for (size_t i = 0; i < a.weights[w].size(); i++, all++)
                far += !(std::abs(a.weights[w][i] - b.weights[w][i]) < 1e-4);
        CHECK(far <= all / 200);  // gradients that are rounding alone: Adam divides them by themselves
    }
    MESSAGE(refused << " of " << cases << " schedules were refused");
    CHECK(refused < cases);
}

TEST_CASE("fuzz: random step schedules agree with the unscheduled step") { check_schedules(1, 20); }

TEST_CASE("fuzz: many of them, CRYOLITE_FUZZ_CASES from CRYOLITE_FUZZ_SEED on" * slow()) {
    check_schedules(number("CRYOLITE_FUZZ_SEED", 21), number("CRYOLITE_FUZZ_CASES", 180));
}

}  // namespace cryolite::test
