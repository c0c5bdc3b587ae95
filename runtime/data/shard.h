#pragma once
// Token shards in llm.c's format: a header of 256 int32 (20240520, version 1, count, zeros), then
// `count` uint16 tokens.

#include "runtime/data/tokens.h"
#include "runtime/files.h"

namespace cryolite {

/// True when the file begins as a shard does; no text does. False when it cannot be read.
bool is_token_shard(const fs::path &path);

/// Maps the shard and reads all of it once to check it.
/// Errors: wrong magic or version, a size that is not the count's, a token outside 0 ... vocabulary
/// - 1 (with its byte offset), no tokens.
TokenStream open_token_shard(const fs::path &path, int vocabulary);

}  // namespace cryolite
