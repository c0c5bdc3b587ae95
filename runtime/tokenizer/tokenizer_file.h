#pragma once
// Tokenizers of Hugging Face's `tokenizers`, from their tokenizer.json.

#include <nlohmann/json_fwd.hpp>

#include "runtime/tokenizer/tokenizer.h"

namespace cryolite {

/// A byte-level BPE, such as SmolLM2's, Qwen 2.5's and Llama 3's. Added tokens are found in a text; what lies between
/// them is normalised to NFC where the file says so, split by the file's patterns, and merged. The tokens are those of
/// `encode(text, add_special_tokens=False)`. Errors: an unsupported file (its path, the JSON member, what it is and
/// what is supported); in encoding, a text that is not UTF-8. The vocab.json of a run gives that run's tokenizer.
std::shared_ptr<const Tokenizer> tokenizer_of_file(const fs::path &path);

/// The same, from the members of the file that `to_json` keeps. Errors name the member.
std::shared_ptr<const Tokenizer> tokenizer_of_members(const nlohmann::json &members);

/// `vocabulary_type` of a file that has been parsed.
std::string type_of_vocabulary(const nlohmann::json &file);

}  // namespace cryolite
