// Every kernel of a GPT, on ragged and on aligned shapes, with its loop schedule and without.

#include "schedules/cpu/gpt.h"

#include "tests/support/kernels.h"
#include "tests/support/shapes.h"

namespace cryolite::test {

namespace {

const ModelArguments ragged = ragged_gpt(), aligned = aligned_gpt();

}  // namespace

TEST_CASE("schedules: ragged shapes") { check_kernels(Compiled<Gpt>(ragged, schedule_gpt)); }
TEST_CASE("schedules: aligned shapes") { check_kernels(Compiled<Gpt>(aligned, schedule_gpt)); }

TEST_CASE("schedules: clipped, and updates inside the backward pass") {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.clip = true}));
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.update = "backward"}));
}

TEST_CASE("schedules: few rows") {
    check_kernels(Compiled<Gpt>(few_rows_gpt(), schedule_gpt));
    check_kernels(Compiled<Gpt>(few_rows_gpt(), schedule_gpt, {.update = "backward"}));
}

TEST_CASE("schedules: few rows, in whole vectors") {
    for (const char *rows : {"16", "48"}) check_kernels(Compiled<Gpt>(whole_vectors_gpt(rows), schedule_gpt));
}

TEST_CASE("schedules: accumulating over micro-batches") {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.accumulate = true}));
}

}  // namespace cryolite::test
