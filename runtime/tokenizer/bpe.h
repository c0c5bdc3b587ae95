#pragma once
// Byte pair encoding on bytes: of the neighbours that can be merged, those of the lowest rank are merged first.

#include "runtime/tokenizer/tokenizer.h"

#include <unordered_map>

namespace cryolite {

/// GPT-2's alphabet, in which files write tokens: a printable byte is its own character, each other byte one from 256
/// on. Empty: a character stands for no byte.
std::string bytes_of_characters(std::string_view characters);
std::string characters_of_bytes(std::string_view bytes);
/// All bytes in the order of GPT-2's tokens, the printable ones first.
const std::vector<int> &bytes_in_order();

/// The tokens of bytes, and the merges of two tokens into one.
class Bpe {
public:
    struct Merge {
        int token = -1;  ///< what the two become
        int rank = 0;    ///< the lowest rank is merged first
        bool operator==(const Merge &) const = default;
    };
    struct Pair {
        int left, right;
        Merge merge;
    };

    Bpe() { byte_token_.fill(-1); }
    /// Makes room for this many merges. Called before the first `add`.
    void reserve(size_t merges);
    /// A byte that is never set has no token, and `encode` leaves it out.
    void set_byte(unsigned char byte, int token) { byte_token_[byte] = token; }
    bool has(unsigned char byte) const { return byte_token_[byte] >= 0; }
    /// Of merges of the same two tokens, the last one counts.
    void add(const Pair &pair);
    /// Appends the tokens of a piece.
    void encode(std::string_view piece, std::vector<int> &tokens) const;
    /// All merges, in no particular order.
    std::vector<Pair> pairs() const;

private:
    /// A slot of a hash table with open addressing.
    struct Slot {
        uint64_t pair = ~uint64_t{0};
        Merge merge;
    };
    std::vector<Slot> slots_;
    std::array<int, 256> byte_token_;  ///< -1: none

    Merge find(int left, int right) const;
};

/// Encodes the pieces of a text, equal ones once, and passes the tokens to a sink, a few thousand at a time.
class PieceEncoder {
public:
    using Encode = std::function<void(std::string_view piece, std::vector<int> &tokens)>;
    PieceEncoder(Encode encode, const Tokenizer::Sink &sink) : encode_(std::move(encode)), sink_(sink) {}

    void add(std::string_view piece);
    void add_token(int token);
    /// Passes on the last tokens.
    void finish();

private:
    struct Range {
        uint32_t begin, count;
    };
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    Encode encode_;
    const Tokenizer::Sink &sink_;
    std::unordered_map<std::string, Range, Hash, std::equal_to<>> known_;
    std::vector<int> tokens_of_known_, out_;

    void send();
};

}  // namespace cryolite
