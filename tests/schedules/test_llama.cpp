// Every kernel of a Llama, on ragged and on aligned shapes, with its loop schedule and without.

#include "schedules/models/llama.h"

#include "tests/support/kernels.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

const ModelArguments ragged = ragged_llama(),
                     aligned = {{"layers", "1"},   {"heads", "3"},    {"kv-heads", "1"}, {"width", "192"},
                                {"hidden", "384"}, {"context", "64"}, {"batch", "1"},    {"vocab", "96"}},
                     tiny = {{"layers", "1"}, {"heads", "2"},   {"kv-heads", "1"},
                             {"width", "32"}, {"hidden", "64"}, {"context", "16"}};

}  // namespace

TEST_CASE("schedules: Llama on ragged shapes") { check_kernels(Compiled<Llama>(ragged, schedule_llama)); }

TEST_CASE("schedules: Llama on aligned shapes" * slow()) {
    check_kernels(Compiled<Llama>(aligned, schedule_llama, {.update = "backward"}));
}

TEST_CASE("schedules: Llama's products are all cuBLASLt's where they are asked for") {
    Compiled<Llama> c(tiny, schedule_llama, {.dialect = "cublaslt"}, bf16,
                      Halide::Target("x86-64-linux-cuda-cuda_capability_80"));
    int products = 0;
    for (const ir::Kernel &k : c.program.kernels) {
        if (k.dialect_why.empty()) continue;  // it is no product
        CHECK_MESSAGE(k.dialect == "cublaslt", k.name);
        products++;
    }
    CHECK(products > 15);
}

TEST_CASE("schedules: Llama computes its gated unit again in 16 bits, and keeps it in fp32") {
    for (Format format : {fp32, bf16}) {
        Compiled<Llama> c(tiny, schedule_llama, {}, format);
        const auto again = [&](const std::string &layer) {
            return std::ranges::any_of(c.program.kernels, [&](const ir::Kernel &k) {
                return k.name.find(layer) != std::string::npos && k.name.find("again") != std::string::npos;
            });
        };
        CHECK(again("act_fn") == (format != fp32));
        CHECK(again("layernorm"));
    }
}

TEST_CASE("schedules: Llama in bf16, what GPT has not" * slow()) {
    const auto asked = [](const StepProgram &, const ir::Kernel &k) {
        return k.name.find("self_attn") != std::string::npos || k.name.find("act_fn") != std::string::npos;
    };
    check_kernels(Compiled<Llama>(ragged, schedule_llama, {}, bf16), 4e-3, asked);
}

}  // namespace cryolite::test
