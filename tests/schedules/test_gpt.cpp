// Every kernel of a GPT, on ragged and on aligned shapes, with its loop schedule and without.

#include "schedules/cpu/gpt.h"

#include "tests/support/kernels.h"

namespace cryolite::test {

namespace {

using Arguments = std::vector<std::pair<std::string, std::string>>;
const Arguments ragged = {{"layers", "1"},   {"heads", "5"}, {"width", "35"},
                          {"context", "19"}, {"batch", "2"}, {"vocab", "53"}},
                aligned = {{"layers", "1"},   {"heads", "2"}, {"width", "64"},
                           {"context", "32"}, {"batch", "2"}, {"vocab", "96"}};

}  // namespace

TEST_CASE("schedules: ragged shapes") { check_kernels(Compiled<Gpt>(ragged, schedule_gpt)); }
TEST_CASE("schedules: aligned shapes") { check_kernels(Compiled<Gpt>(aligned, schedule_gpt)); }

TEST_CASE("schedules: clipped, and updates inside the backward pass") {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.clip = true}));
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.update = "backward"}));
}

TEST_CASE("schedules: accumulating over micro-batches") {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.accumulate = true}));
}

}  // namespace cryolite::test
