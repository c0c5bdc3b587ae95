#pragma once
// Token shards in llm.c's format: a header of 256 int32 (20240520, version 1, count, zeros), then
// `count` uint16 tokens.

#include "runtime/data/tokens.h"
#include "runtime/io/files.h"

namespace cryolite {

/// True when the file begins as a shard does; no text does. False when it cannot be read.
bool is_token_shard(const fs::path &path);

struct TokenShard {
    TokenStream tokens;  ///< stays in the file
    std::string digest;  ///< SHA-256 of the file
};

/// Reads the whole shard once to check it. Errors: wrong magic or version, a size that does not match the count, no
/// tokens, a token outside 0 ... vocabulary - 1 (with its byte offset). Reading its tokens later fails, too, where the
/// file's size or time of change is another one, or a token is outside the vocabulary.
TokenShard open_token_shard(const fs::path &path, int vocabulary);

}  // namespace cryolite
