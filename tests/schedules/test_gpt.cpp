// Every kernel of a GPT, on ragged and on aligned shapes, with its loop schedule and without.

#include "schedules/models/gpt.h"

#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

const ModelArguments ragged = ragged_gpt(), aligned = aligned_gpt();

}  // namespace

TEST_CASE("schedules: ragged shapes") { check_kernels(Compiled<Gpt>(ragged, schedule_gpt)); }
TEST_CASE("schedules: tiled loops of a GPT") {
    const auto alone = [](Gpt &, Step &s) { s.clear(); };
    check_tiled(Compiled<Gpt>(ragged, alone));
    check_tiled(Compiled<Gpt>(ragged, schedule_gpt), {{"stored_from", 2}});
}
TEST_CASE("schedules: tiled loops of a GPT, all that is read is computed again" * slow()) {
    check_tiled(Compiled<Gpt>(aligned, schedule_gpt), {{"stored_from", 1 << 20}});
}
TEST_CASE("schedules: aligned shapes" * slow()) { check_kernels(Compiled<Gpt>(aligned, schedule_gpt)); }

TEST_CASE("schedules: clipped, and updates inside the backward pass" * slow()) {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.clip = true}));
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.update = "backward"}));
}

TEST_CASE("schedules: few rows, updates inside the backward pass" * slow()) {
    check_kernels(Compiled<Gpt>(few_rows_gpt(), schedule_gpt, {.update = "backward"}));
}

TEST_CASE("schedules: few rows, updates apart" * slow()) { check_kernels(Compiled<Gpt>(few_rows_gpt(), schedule_gpt)); }

TEST_CASE("schedules: few rows, in whole vectors" * slow()) {
    for (const char *rows : {"16", "48"}) check_kernels(Compiled<Gpt>(whole_vectors_gpt(rows), schedule_gpt));
}

// The head's gradient of a panel, in one tile or several, and that of the rows of the embedding, in one update.
static void check_tied(int panel, Format format) {
    CAPTURE(panel);
    CAPTURE(format);
    const auto in_panels = [&](Gpt &net, Step &s) {
        schedule_gpt(net, s);
        s.layout(net.token.table, panels(panel, 1));
    };
    check_kernels(Compiled<Gpt>(ragged, in_panels, {.update = "backward"}, format), format == bf16 ? 4e-3 : 3e-5);
}

TEST_CASE("schedules: a tied table whose panels are wider than a tile") { check_tied(128, fp32); }
TEST_CASE("schedules: a tied table in panels of one tile, of several and of none that is whole" * slow()) {
    for (int panel : {16, 32, 96, 20}) check_tied(panel, fp32);
    check_tied(128, bf16);
}

TEST_CASE("schedules: accumulating over micro-batches" * slow()) {
    check_kernels(Compiled<Gpt>(ragged, schedule_gpt, {.accumulate = true}));
}

}  // namespace cryolite::test
