// A model of text whose sequences hold several documents, each after the token 0, and padding, the token 1: all that
// attention hides is made from the tokens.

#include "generators/cryolite.h"

using namespace cryolite;

struct Packed : TextModel {
    static constexpr int width = 16, end = 0, padding = 1;
    GeneratorParam<bool> head_norm{"head-norm", false, "heads of queries and keys are normalised"};
    Documents documents{"documents", end};
    PaddingMask mask{"mask", padding};
    Embedding token{"token", vocab, width, normal(0.5)};
    Linear qkv{"qkv", width, 3 * width, he(width)}, head{"head", width, vocab, he(width)};
    Attention attention{"attention", options()};
    CrossEntropy counted{"loss", {.ignored = padding}};

    AttentionOptions options() const {
        AttentionOptions o{.heads = 2, .documents = true, .mask = true};
        if (head_norm) o.head_norm = HeadNorm{width / o.heads};
        return o;
    }
    Tensor forward(Tensor tokens) override {
        const Tensor x = token(tokens);
        return head(x + attention(qkv(x), documents(tokens), mask(tokens)));
    }
    Tensor loss(Tensor y, Tensor targets) override { return counted(y, targets); }
};

int main(int argc, char **argv) { return program<Packed>(argc, argv, {"packed"}); }
