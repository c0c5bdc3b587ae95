#pragma once
// A text as tokens, split into training and validation.

#include "runtime/tokenizer/tokenizer.h"
#include "runtime/data/tokens.h"

namespace cryolite {

struct TextOptions {
    fs::path data;
    fs::path validation = {};  ///< empty: the last tenth of `data`
    /// Null: the characters of all of `data`, so that the validation part has no unknown one.
    std::shared_ptr<const Tokenizer> tokenizer = nullptr;
    int context = 1;  ///< each part must hold a window and its target: context + 1 tokens
};

struct TextCorpus {
    std::shared_ptr<const Tokenizer> tokenizer;
    TokenStream train, validation;
    std::string digest;  ///< SHA-256 of the data file, so that a resumed run can tell whether it is
                         ///< the same
};

/// Errors: empty, missing, unreadable, binary (a zero byte) or not UTF-8, with the offset; a part
/// shorter than context + 1 tokens; a character outside a given vocabulary.
TextCorpus load_text(const TextOptions &options);

/// The file, checked to be text.
std::string read_text(const fs::path &path);

/// Where the first nine tenths end, in bytes: int(0.9 * characters) characters, as nanoGPT and
/// PyTorch scripts count them, or int(0.9 * bytes) moved back to the beginning of a character.
size_t split_by_characters(std::string_view text);
size_t split_by_bytes(std::string_view text);

/// 16-bit tokens where the vocabulary allows it.
TokenStream encode_stream(const Tokenizer &tokenizer, std::string_view text, size_t offset = 0);

/// Throws unless `tokens` hold a window and its target. `what`: "PATH: the training part".
void require_context(const TokenStream &tokens, int context, const std::string &what);

}  // namespace cryolite
