#include "runtime/data/shard.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

/// Two bytes of a vocabulary, then the shard.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const int vocabulary = data[0] + 256 * data[1];
    const fuzz::InputFile input(fuzz::text_of(data + 2, size - 2));
    is_token_shard(input.path());
    fuzz::may_refuse([&] {
        const TokenStream tokens = open_token_shard(input.path(), vocabulary).tokens;
        std::vector<int32_t> all(tokens.size());
        tokens.copy(0, all);
        fuzz::require(!all.empty());
        for (int32_t token : all) fuzz::require(token >= 0 && token < vocabulary);
    });
    return 0;
}
