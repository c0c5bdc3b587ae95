#pragma once
// Tokenizers of Hugging Face's `tokenizers`, from their tokenizer.json.

#include <nlohmann/json_fwd.hpp>

#include "runtime/tokenizer/tokenizer.h"

namespace cryolite {

/// A byte-level BPE, as SmolLM2's, Qwen 2.5's and Llama 3's: added tokens are found in a text, what lies between them
/// is brought to NFC where the file says so, split by the file's patterns, and merged. The tokens are those of
/// `encode(text, add_special_tokens=False)`. Errors: a file of another kind, which name `origin`, the member of JSON,
/// what it is and what is supported; a text that is not UTF-8.
std::shared_ptr<const Tokenizer> tokenizer_of_file(const fs::path &path);

/// The same of what `to_json` keeps of the file. Errors name the member.
std::shared_ptr<const Tokenizer> tokenizer_of_members(const nlohmann::json &members);

}  // namespace cryolite
