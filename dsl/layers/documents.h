#pragma once
// Masks of attention that are computed from the tokens, so that they are no input of a model.

#include "dsl/layer.h"

namespace cryolite {

/// One number for each token, without a gradient.   tokens: [context, ...batch] int32 -> the same shape, floats.
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

/// The number of the document that each position belongs to, where a sequence holds several documents:
/// y(t) = how many of the tokens 0 ... t are `end`, the end-of-text token. `end` begins the document that follows it,
/// as in llm.c's shards, so the prediction of a document's first token depends on no other document.
/// `Attention{..., {.documents = true}}` takes it.
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

/// y(t) = 0 where the token is `padding`, else 1. `Attention{..., {.mask = true}}` takes it. A loss leaves out padded
/// targets if its `ignored` is the same token.
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
