#pragma once
// Text from a model, token after token.

#include <functional>

#include "apps/cryolite/report/progress.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/trainer.h"

namespace cryolite {

class Sampler {
public:
    /// `temperature` 0: always the likeliest token.
    Sampler(Trainer &trainer, const Tokenizer &tokenizer, double temperature, uint64_t seed);

    /// Sets what comes before. Errors: a character that is not in the vocabulary. Empty: a line
    /// break, or the first token of a vocabulary without one.
    void begin(const std::string &prompt);
    /// The next token, after the last `context` ones.
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

/// Some text, until `stop` says so and for as long as that is pleasant to wait for; `progress` says how long that is,
/// and how far it is.
std::string short_sample(Trainer &trainer, const Tokenizer &tokenizer, uint64_t seed, const std::function<bool()> &stop,
                         Progress &progress);

}  // namespace cryolite
