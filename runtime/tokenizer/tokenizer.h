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

    virtual std::string_view name() const = 0;  ///< "char", "gpt2" or "tokenizer.json"
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

/// The type of a run's vocab.json: "char", "gpt2" or "tokenizer.json". Empty: the text is something else, such as a
/// tokenizer.json itself, or the vocab.json of GPT-2.
std::string vocabulary_type(std::string_view text);

/// The tokenizer of a run's vocab.json. Errors, naming `origin`: no JSON, an unknown type, a wrong vocabulary.
std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view json, const std::string &origin);

std::shared_ptr<const Tokenizer> load_tokenizer(const fs::path &path);

/// The distinct characters (code points) of a text, numbered in their order: Python's
/// sorted(set(text)).
class CharTokenizer : public Tokenizer {
public:
    /// `origin`: the file that the characters are from; errors about a text with other ones name it.
    /// Errors: no characters, not sorted, one twice.
    explicit CharTokenizer(std::vector<uint32_t> code_points, std::string origin = "");
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
    std::string origin_;
};

}  // namespace cryolite
