#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/tokenizer/utf8.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

namespace {

/// What is encoded is there again, but for a tokenizer.json, which may normalise it; and a vocabulary that is written
/// is read back.
void use(const Tokenizer &tokenizer, std::string_view text) {
    fuzz::may_refuse([&] {
        const std::vector<int> tokens = tokenizer.encode(text);
        for (int token : tokens) fuzz::require(token >= 0 && token < tokenizer.size());
        const std::string back = tokenizer.decode(tokens);
        fuzz::require(back == text || tokenizer.name() == "tokenizer.json");
    });
    const std::string json = tokenizer.to_json();
    const std::shared_ptr<const Tokenizer> again = tokenizer_from_json(json, "itself");
    fuzz::require(again->size() == tokenizer.size() && again->to_json() == json);
}

}  // namespace

/// Merges as in vocab.bpe, or a vocabulary in JSON; after a zero byte a text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string_view input = fuzz::text_of(data, size);
    const size_t zero = std::min(input.find('\0'), input.size());
    const std::string_view vocabulary = input.substr(0, zero), text = input.substr(std::min(zero + 1, input.size()));
    fuzz::may_refuse([&] {
        if (vocabulary.starts_with("{"))
            use(*tokenizer_from_json(vocabulary, "vocab.json"), text);
        else
            use(*BpeTokenizer::from_merges(vocabulary, "vocab.bpe"), text);
    });
    fuzz::may_refuse([&] { use(*CharTokenizer::of(input, "text"), input); });
    return 0;
}
