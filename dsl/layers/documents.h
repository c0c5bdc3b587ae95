#pragma once
// What attention hides, made from tokens: nobody has to feed it.

#include "dsl/layer.h"

namespace cryolite {

/// What one number says of each token; no gradient of it is taken.   tokens: [context, ...batch] int32 -> the same.
struct OfTokens : Layer {
    using Layer::Layer;

    bool differentiates(int) const override { return false; }
    Shape shape(const Shape &tokens) const override {
        if (tokens.rank() < 1) fail("[{}] input {} is not [context, batch]", path, tokens.str());
        return tokens;
    }
    double flops(const Shape &) const override { return 0; }
    void backward(const Call &, Array) override {}
};

/// The number of the document that each position belongs to, of sequences that hold several: how many of the tokens up
/// to it are `end`, the end-of-text token. It begins the document that follows it, as in llm.c's shards, so that what
/// predicts a document's first token has seen no other document. `Attention{..., {.documents = true}}` takes it.
struct Documents : OfTokens {
    const int end;

    Documents(std::string path, int end) : OfTokens(std::move(path)), end(end) {
        if (end < 0) fail("[{}] has the end-of-text token {}, expected 0 or more", this->path, end);
    }
    Func forward(Array tokens) override {
        Func count("count"), y("y");
        Var t("t"), s("s");
        count(t, s) = cast<int>(tokens(t, s) == end);
        if (const int context = tokens.extent(0); context > 1) {
            RDom k(1, context - 1, "k");
            count(k, s) += count(k - 1, s);
        }
        y(t, s) = cast<float>(count(t, s));
        return y;
    }
};

/// 1 where a token counts, 0 where it is `padding`: what `Attention{..., {.mask = true}}` takes. A loss counts no
/// padded targets where the same token is its `ignored`.
struct PaddingMask : OfTokens {
    const int padding;

    PaddingMask(std::string path, int padding) : OfTokens(std::move(path)), padding(padding) {
        if (padding < 0) fail("[{}] has the padding token {}, expected 0 or more", this->path, padding);
    }
    Nature nature() const override { return Nature::pointwise; }
    Func forward(Array tokens) override {
        Func y("y");
        Var t("t"), s("s");
        y(t, s) = cast<float>(tokens(t, s) != padding);
        return y;
    }
};

}  // namespace cryolite
