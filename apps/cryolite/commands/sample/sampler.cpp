#include "apps/cryolite/commands/sample/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/io/error.h"
#include "runtime/system/rng.h"

namespace cryolite {

Sampler::Sampler(Trainer &trainer, const Tokenizer &tokenizer, double temperature, uint64_t seed)
    : trainer_(trainer), tokenizer_(tokenizer), temperature_(temperature), seed_(seed),
      context_(size_t(trainer.rows_per_example())) {
    if (tokenizer.size() > trainer.classes())
        fail("the vocabulary has {} tokens, the model only {}", tokenizer.size(), trainer.classes());
    batch_.tokens.resize(context_ * size_t(trainer.batch()));
    batch_.targets.resize(batch_.tokens.size());
    weights_.resize(size_t(tokenizer.size()));
}

void Sampler::begin(const std::string &prompt) {
    if (!prompt.empty()) {
        tokens_ = tokenizer_.encode(prompt);
        return;
    }
    try {
        tokens_ = tokenizer_.encode("\n");
    } catch (const Error &) {
    }
    if (tokens_.empty()) tokens_ = {0};
}

int Sampler::draw(std::span<const float> logits) {
    const auto top = std::max_element(logits.begin(), logits.end());
    if (!std::isfinite(*top)) fail("the model's output is {}: its weights are not usable", *top);
    if (temperature_ == 0) return int(top - logits.begin());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); i++) sum += weights_[i] = std::exp((double(logits[i]) - *top) / temperature_);
    double left = Rng(seed_, "sample").uniform(count_++) * sum;
    for (size_t i = 0; i < logits.size(); i++)
        if ((left -= weights_[i]) < 0) return int(i);
    return int(top - logits.begin());
}

int Sampler::next() {
    const size_t length = std::min(tokens_.size(), context_);
    // The tokens fill the first row from the left. Attention is causal: what follows them, and the other rows, do not
    // change the output at the last of them.
    std::copy(tokens_.end() - long(length), tokens_.end(), batch_.tokens.begin());
    const auto classes = size_t(trainer_.classes());
    std::span<const float> output = trainer_.predict(batch_, 1);
    // A vocabulary that was enlarged has tokens without a text, which are not drawn.
    const int token = draw(output.subspan((length - 1) * classes, size_t(tokenizer_.size())));
    tokens_.push_back(token);
    return token;
}

std::string short_sample(Trainer &trainer, const Tokenizer &tokenizer, uint64_t seed, const std::function<bool()> &stop,
                         Progress &progress) {
    constexpr int most = 300;
    constexpr std::chrono::seconds pleasant{10};
    progress.say(fmt::format("a sample, {} tokens or as many as come in {} s:", most, pleasant.count()));
    Sampler sampler(trainer, tokenizer, 0.8, seed);
    sampler.begin("");
    std::string text;
    const auto start = std::chrono::steady_clock::now();
    for (int n = 0; n < most && !stop() && std::chrono::steady_clock::now() - start < pleasant; n++) {
        progress.busy(fmt::format("token {} of {}", n + 1, most));
        text += sampler.piece(sampler.next());
    }
    progress.clear();
    return text;
}

}  // namespace cryolite
