// Steps that cannot fit are refused before anything is compiled; those that fit are not.

#include "dsl/models/gpt.h"
#include "generators/driver/memory/memory_limit.h"
#include "tests/support/reads.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

std::string message(std::vector<std::pair<std::string, std::string>> arguments, double memory) {
    Arguments::current() = {std::move(arguments), {}};
    Machine machine = Machine::of(test_target());
    Step step(machine);
    AdamW rule;
    Gpt model;
    const auto sized = [&](const StepProgram &p) { check_size(p, {"--layers", "--width"}, memory); };
    return error_of([&] {
        lower({.model = model, .optimizer = rule, .schedule = step, .oracle = reads_of_kinds, .sized = sized});
    });
}

}  // namespace

TEST_CASE("a step larger than the memory") {
    // 809,856 parameters, two states each: 9.7 MB, and 768 x 512 floats.
    CHECK(message({{"layers", "4"}}, 12e6) == "");
    CHECK(message({{"layers", "4"}}, 10e6) ==
          "a step of 8.1e+05 parameters needs at least 11.3 MB of memory, and 10.0 MB are available; "
          "use fewer or smaller --layers, --width");
    CHECK_ERROR(fail("{}", message({{"layers", "300"}, {"width", "1600"}, {"heads", "25"}}, 24e9)),
                "a step of 9.22e+09 parameters needs at least 110.7 GB of memory, and 24.0 GB are available");
    CHECK(machine_memory() > 1e8);
}

TEST_CASE("an array that 32 bits cannot index, however large the memory is") {
    CHECK_ERROR(fail("{}", message({{"width", "16777216"}}, 1e30)), "but a kernel's array has less than 2^31");
    CHECK_ERROR(fail("{}", message({{"vocab", "16777216"}, {"layers", "1"}}, 1e30)),
                "'output' has 1.29e+10 elements ([16777216, 64, 12])");
    // GPT-2's logits of 32,768 tokens: 6.6 GB, but few enough elements.
    CHECK(message({{"vocab", "50257"}, {"batch", "32"}, {"context", "1024"}, {"positions", "1024"}}, 1e30) == "");
}

}  // namespace cryolite::test
