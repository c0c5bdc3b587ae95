// Kernels of attention with each of its options, at a context that no block divides, with their loops and without; and
// what the lines of GPT's schedule do around a root mean square norm.

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/documents.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/rms_norm.h"
#include "tests/support/kernels.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// Options of the attention of the model that is made next.
AttentionOptions options;

struct Attends : TextModel {
    static constexpr int size = 6;
    const int kv_heads = options.kv_heads ? options.kv_heads : options.heads, width = options.heads * size;
    Documents documents{"documents", 3};
    PaddingMask mask{"mask", 5};
    Embedding token{"token", vocab, width, normal(0.5)};
    Linear qkv{"qkv", width, (options.heads + 2 * kv_heads) * size, he(width)}, head{"head", width, vocab};
    Attention attention{"attention", options};

    Tensor forward(Tensor tokens) override {
        const Tensor x = qkv(token(tokens));
        if (options.documents && options.mask) return head(attention(x, documents(tokens), mask(tokens)));
        if (options.documents) return head(attention(x, documents(tokens)));
        return head(options.mask ? attention(x, mask(tokens)) : attention(x));
    }
};

/// As a block of GPT, with RMSNorm in the place of LayerNorm.
struct Normed : Classifier {
    Linear first{"first", 13, 37}, up{"up", 37, 52}, down{"down", 52, 37}, head{"head", 37, classes};
    RMSNorm norm{"norm", 37};
    Gelu gelu{"gelu"};
    Shape features() const override { return {13}; }
    Tensor forward(Tensor x) override {
        const Tensor h = first(x);
        return head(h + down(gelu(up(norm(h)))));
    }
};

}  // namespace

TEST_CASE("schedules: attention to both sides, in windows, in documents, with a mask, with grouped heads") {
    const AttentionOptions ways[] = {
        {.heads = 2, .causal = false},
        {.heads = 2, .window = 5},
        {.heads = 2, .causal = false, .window = 18},
        {.heads = 2, .documents = true},
        {.heads = 2, .causal = false, .mask = true},
        {.heads = 4, .kv_heads = 2, .window = 20, .documents = true, .mask = true, .rotary = Rotary{.base = 100}},
    };
    const auto asked = [](const StepProgram &, const ir::Kernel &k) {
        for (const char *name : {"attention", "documents", "mask", "qkv"})
            if (k.name.find(name) != std::string::npos) return true;
        return false;
    };
    for (const AttentionOptions &o : ways) {
        CAPTURE(&o - ways);
        options = o;
        check_kernels(Compiled<Attends>({{"batch", "2"}, {"context", "37"}, {"vocab", "19"}}), 3e-5, asked);
    }
}

TEST_CASE("schedules: attention in bf16, in pairs of terms, with each of its options") {
    const AttentionOptions ways[] = {
        {.heads = 2},
        {.heads = 2, .causal = false, .window = 18},
        {.heads = 4, .kv_heads = 2, .window = 20, .documents = true, .mask = true, .rotary = Rotary{.base = 100}},
    };
    const auto asked = [](const StepProgram &, const ir::Kernel &k) {
        return k.name.find("attention") != std::string::npos;
    };
    for (const AttentionOptions &o : ways) {
        CAPTURE(&o - ways);
        options = o;
        check_kernels(Compiled<Attends>({{"batch", "2"}, {"context", "37"}, {"vocab", "19"}}, {}, {}, bf16), 4e-3,
                      asked);
    }
}

TEST_CASE("schedules: tiled loops of attention" * slow()) {
    options = {.heads = 2};
    check_tiled(Compiled<Attends>({{"batch", "2"}, {"context", "37"}, {"vocab", "19"}}));
    options = {.heads = 4, .kv_heads = 2, .window = 20, .documents = true, .mask = true, .rotary = Rotary{.base = 100}};
    check_tiled(Compiled<Attends>({{"batch", "2"}, {"context", "37"}, {"vocab", "19"}}));
    check_tiled(Compiled<Attends>({{"batch", "2"}, {"context", "37"}, {"vocab", "19"}}, {}, {}, bf16), {}, 4e-3);
}

TEST_CASE("schedules: RMSNorm inside the product that reads it, as GPT's LayerNorm, with the product's epilogue") {
    const Compiled<Normed> c({{"batch", "21"}}, [](Normed &net, Step &s) {
        s(net.norm).compute_at(net.up);
        s(net.gelu).compute_with(net.up);
        s(d(net.gelu)).compute_at(d(net.up));
    });
    CHECK(c.kernel("forward", "norm") == c.kernel("forward", "up"));
    CHECK(c.kernel("forward", "gelu") == c.kernel("forward", "up"));
    check_kernels(c);
}

}  // namespace cryolite::test
