#pragma once
// Text to tokens and back. A run keeps its tokenizer as vocab.json, so that it can be resumed,
// evaluated and sampled from without its data.

#include "runtime/io/files.h"

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cryolite {

class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    virtual std::string_view name() const = 0;  ///< "char" or "gpt2"
    virtual int size() const = 0;               ///< tokens are 0 ... size() - 1

    /// Receives tokens a few thousand at a time.
    using Sink = std::function<void(std::span<const int>)>;
    /// Errors: text that is not UTF-8 or has no token; they say at which byte, counted from
    /// `offset`.
    virtual void encode_to(std::string_view text, const Sink &sink, size_t offset = 0) const = 0;
    std::vector<int> encode(std::string_view text) const;

    /// The bytes of the tokens, one after the other: with BPE a token may be a part of a character,
    /// so only a whole text is sure to be UTF-8. Errors: a token out of the vocabulary.
    std::string decode(std::span<const int> tokens) const;
    /// The bytes of one token, for printing as they come.
    virtual std::string_view piece(int token) const = 0;

    /// True when the tokens are characters, so that a text is split by counting characters.
    virtual bool by_character() const { return false; }

    /// One line of JSON with all that `tokenizer_from_json` needs.
    virtual std::string to_json() const = 0;

protected:
    void check_token(int token) const;
};

/// Errors: not JSON, an unknown type, a vocabulary that cannot be; they name `origin`.
std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view json, const std::string &origin);

std::shared_ptr<const Tokenizer> load_tokenizer(const fs::path &path);

/// The distinct characters (code points) of a text, numbered in their order: Python's
/// sorted(set(text)).
class CharTokenizer : public Tokenizer {
public:
    /// Errors: no characters, not sorted, one twice.
    explicit CharTokenizer(std::vector<uint32_t> code_points);
    /// The characters that `text` has. Errors: not UTF-8 (at which byte of `origin`).
    static std::shared_ptr<const CharTokenizer> of(std::string_view text, const std::string &origin);

    std::string_view name() const override { return "char"; }
    int size() const override { return static_cast<int>(pieces_.size()); }
    void encode_to(std::string_view text, const Sink &sink, size_t offset) const override;
    std::string_view piece(int token) const override;
    bool by_character() const override { return true; }
    std::string to_json() const override;

private:
    std::vector<std::string> pieces_;  ///< the UTF-8 of each token
    std::vector<int> token_of_;        ///< by code point, -1: none
};

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
    int merged(int left, int right) const;  ///< the token of the pair, or -1
    void merge(std::string_view piece, std::vector<int> &tokens) const;
    void add_pair(int left, int right, int token);
    void add_piece(std::string_view bytes);

    std::string bytes_;              ///< all tokens' bytes, one after the other
    std::vector<uint32_t> offsets_;  ///< where each begins in bytes_
    std::array<int, 256> byte_token_{};
    /// Pair -> token, open addressing; a token's number rises with its merge's rank.
    struct Slot {
        uint64_t pair = ~uint64_t{0};
        int token = -1;
    };
    std::vector<Slot> pairs_;
};

/// Calls piece(text) for each match of GPT-2's pattern
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ ; together they are
/// the text. Errors: not UTF-8, at which byte counted from `offset`.
void for_each_pretoken(std::string_view text, size_t offset, const std::function<void(std::string_view)> &piece);

}  // namespace cryolite
