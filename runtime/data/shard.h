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

/// Reads all of the shard once to check it.
/// Errors: wrong magic or version, a size that is not the count's, a token outside 0 ... vocabulary
/// - 1 (with its byte offset), no tokens; also later, of its tokens: another size or time of change than now, a token
/// outside of the vocabulary.
TokenShard open_token_shard(const fs::path &path, int vocabulary);

}  // namespace cryolite
