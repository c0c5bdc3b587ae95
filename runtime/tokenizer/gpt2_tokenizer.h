#pragma once

#include "runtime/tokenizer/bpe.h"

namespace cryolite {

/// GPT-2's byte-level BPE from its merges: 256 bytes, then a token for each merge in order, then
/// <|endoftext|>, which `encode` never gives: in a text its letters are ordinary, as in tiktoken's
/// encode_ordinary.
class BpeTokenizer : public Tokenizer {
public:
    /// `merges`: vocab.bpe, lines "a b" after an optional "#version" line.
    /// Errors: a line that is no pair of known tokens (line number, origin).
    static std::shared_ptr<const BpeTokenizer> from_merges(std::string_view merges, const std::string &origin);

    std::string_view name() const override { return "gpt2"; }
    int size() const override { return static_cast<int>(offsets_.size()); }
    int end_of_text() const { return size() - 1; }
    void encode_to(std::string_view text, const Sink &sink, size_t offset) const override;
    std::string_view piece(int token) const override;
    std::string to_json() const override;

private:
    BpeTokenizer() = default;
    void add_piece(std::string_view bytes);

    std::string bytes_;              ///< all tokens' bytes, one after the other
    std::vector<uint32_t> offsets_;  ///< where each begins in bytes_
    Bpe bpe_;
};

/// Calls piece(text) for each match of GPT-2's pattern
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ ; together they are
/// the text. Errors: not UTF-8, at which byte counted from `offset`.
void for_each_pretoken(std::string_view text, size_t offset, const std::function<void(std::string_view)> &piece);

}  // namespace cryolite
