// The same kernels in bf16: a sum that is rounded may land on the other side, and be read again.

#include "schedules/models/gpt.h"

#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

const ModelArguments ragged = ragged_gpt("1"), aligned = aligned_gpt();
constexpr double tolerance = 4e-3;

}  // namespace

TEST_CASE("bf16: ragged shapes") { check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {}, bf16), tolerance); }
TEST_CASE("bf16: aligned shapes" * slow()) { check_kernels(Compiled<Gpt>(aligned, schedule_gpt, {}, bf16), tolerance); }

TEST_CASE("bf16: clipped, and updates inside the backward pass" * slow()) {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.clip = true, .update = "backward"}, bf16), tolerance);
}
TEST_CASE("bf16: aligned shapes, updates inside the backward pass" * slow()) {
    check_kernels(Compiled<Gpt>(aligned, schedule_gpt, {.update = "backward"}, bf16), tolerance);
}

TEST_CASE("bf16: few rows" * slow()) {
    check_kernels(Compiled<Gpt>(few_rows_gpt(), schedule_gpt, {.update = "backward"}, bf16), tolerance);
}

TEST_CASE("bf16: dX of few rows, in whole vectors" * slow()) {
    for (const char *rows : {"16", "32", "48"})
        check_kernels(Compiled<Gpt>(whole_vectors_gpt(rows), schedule_gpt, {}, bf16), tolerance, computes_dx);
}

TEST_CASE("bf16: accumulating over micro-batches" * slow()) {
    check_kernels(Compiled<Gpt>(aligned, schedule_gpt, {.accumulate = true}, bf16), tolerance);
}

}  // namespace cryolite::test
