#include "runtime/data/text.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(fuzz::text_of(data, size));
    const fuzz::InputFile input(text);
    fuzz::may_refuse([&] {
        const TextCorpus corpus = load_text({.data = input.path(), .context = 1 + int(size % 7)});
        std::string again;
        for (const TokenStream &part : {corpus.train, corpus.validation}) {
            std::vector<int32_t> tokens(part.size());
            part.copy(0, tokens);
            again += corpus.tokenizer->decode(tokens);
        }
        fuzz::require(again == text);
    });
    return 0;
}
