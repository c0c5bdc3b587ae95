#pragma once
// Generates text with a model, token after token.

#include <functional>

#include "apps/cryolite/report/progress.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/trainer.h"

namespace cryolite {

class Sampler {
public:
    /// `temperature` 0: always the likeliest token.
    Sampler(Trainer &trainer, const Tokenizer &tokenizer, double temperature, uint64_t seed);

    /// Sets the text to go on from. If it is empty, that is a line break, or the first token of a vocabulary without
    /// one. Errors: a character that is not in the vocabulary.
    void begin(const std::string &prompt);
    /// Draws the next token; the model sees the last `context` ones.
    int next();
    std::string_view piece(int token) const { return tokenizer_.piece(token); }

private:
    Trainer &trainer_;
    const Tokenizer &tokenizer_;
    double temperature_;
    uint64_t seed_, count_ = 0;
    size_t context_;
    std::vector<int> tokens_;
    std::vector<double> weights_;
    Batch batch_;

    int draw(std::span<const float> logits);
};

/// A sample of at most 300 tokens. It ends early when `stop` returns true, or after 10 seconds. `progress` says so, and
/// how far it is.
std::string short_sample(Trainer &trainer, const Tokenizer &tokenizer, uint64_t seed, const std::function<bool()> &stop,
                         Progress &progress);

}  // namespace cryolite
