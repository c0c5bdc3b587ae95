// The model of tests/programs/smollm2.cpp, which has no line of a schedule, beside the built-in `llama`.

#include "tests/parity/case.h"

namespace cryolite::test {

namespace {

Trained trained(const std::string &program, const fs::path &bundle) {
    std::string flags;
    for (const auto &[name, value] : std::map<std::string, int>{{"layers", 4},
                                                                {"heads", 4},
                                                                {"kv-heads", 2},
                                                                {"width", 128},
                                                                {"hidden", 384},
                                                                {"vocab", 65},
                                                                {"context", 64},
                                                                {"batch", 4}})
        flags += fmt::format(" --param {}={}", name, value);
    return train_bundle(compile_program(program, flags, bundle));
}

}  // namespace

TEST_CASE("smollm2.cpp: the losses and weights of `llama` at equal sizes and seeds") {
    const Scratch folder;
    const Trained mine = trained("tests/smollm2", folder / "mine"),
                  built_in = trained("generators/llama", folder / "built_in");
    REQUIRE(mine.losses.size() == built_in.losses.size());
    for (size_t s = 0; s < mine.losses.size(); s++)
        CHECK(mine.losses[s] == doctest::Approx(built_in.losses[s]).epsilon(1e-5));
    CHECK(mine.losses.back() < mine.losses.front());
    CHECK(mine.weights.size() == built_in.weights.size());
}

}  // namespace cryolite::test
