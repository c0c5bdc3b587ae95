// The loops of GPUs: every kernel on OpenCL beside its unscheduled self on the CPU, on ragged and on whole tiles.

#include "dsl/layers/batch_norm.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/pooling.h"
#include "schedules/models/gpt.h"
#include "schedules/models/llama.h"
#include "tests/support/kernels.h"
#include "tests/support/opencl.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// Checks every kernel of a step.
template <typename M> void check_on_gpu(const ModelArguments &arguments, StepOptions options = {}, Format format = fp32,
                                        typename Compiled<M>::Schedule schedule = {}) {
    Compiled<M> c(arguments, schedule, options, format, opencl);
    CHECK(c.machine.gpu());
    check_kernels(c, format == fp32 ? 3e-5 : 4e-3);
}

struct Images : Classifier {
    Conv2D stem{"stem", 3, 10, 3}, strided{"strided", 10, 20, 3, {.stride = 2, .groups = 2, .bias = false}},
        narrow{"narrow", 20, 7, 1};
    BatchNorm norm{"norm", 10};
    Relu relu{"relu"};
    MaxPool2D maximum{"maximum", {.size = 3, .stride = 2, .padding = 1}};
    MeanPool mean{"mean"};
    Linear head{"head", 7, classes};

    Shape features() const override { return {3, 14, 13}; }
    Tensor forward(Tensor x) override { return head(mean(narrow(strided(maximum(relu(norm(stem(x)))))))); }
};

/// Rows and widths of whole tiles, of tiles with a ragged edge, and sums that several blocks share.
ModelArguments gpt(const char *width, const char *context, const char *batch, const char *vocab) {
    return {{"layers", "1"},      {"heads", "2"},   {"width", width},
            {"context", context}, {"batch", batch}, {"vocab", vocab}};
}

}  // namespace

TEST_CASE("gpu schedules: a GPT on ragged shapes, smaller than a tile") {
    if (!opencl_is_here()) return;
    check_on_gpu<Gpt>(ragged_gpt(), {.clip = true}, fp32, schedule_gpt);
}

TEST_CASE("gpu schedules: a GPT of tiles with ragged edges, updates with their gradients") {
    if (!opencl_is_here()) return;
    check_on_gpu<Gpt>(gpt("74", "37", "2", "157"), {.update = "backward"}, fp32, schedule_gpt);
}

TEST_CASE("gpu schedules: a GPT of whole tiles, updates with their gradients and apart" * slow()) {
    if (!opencl_is_here()) return;
    for (const char *update : {"separate", "backward"})
        check_on_gpu<Gpt>(gpt("64", "32", "2", "96"), {.update = update}, fp32, schedule_gpt);
}

TEST_CASE("gpu schedules: sums of many terms that several blocks share" * slow()) {
    if (!opencl_is_here()) return;
    for (const char *update : {"separate", "backward"})
        check_on_gpu<Gpt>(gpt("64", "32", "16", "96"), {.accumulate = true, .update = update}, fp32, schedule_gpt);
}

TEST_CASE("gpu schedules: 16 bits, which are words there" * slow()) {
    if (!opencl_is_here()) return;
    for (Format format : {bf16, fp16}) check_on_gpu<Gpt>(gpt("74", "37", "2", "157"), {}, format, schedule_gpt);
}

TEST_CASE("gpu schedules: shared heads of keys, rotary positions, gated products" * slow()) {
    if (!opencl_is_here()) return;
    check_on_gpu<Llama>(ragged_llama(), {}, fp32, schedule_llama);
}

TEST_CASE("gpu schedules: convolutions, pools, and sums over the images of a batch") {
    if (!opencl_is_here()) return;
    check_on_gpu<Images>({{"batch", "5"}});
}

}  // namespace cryolite::test
