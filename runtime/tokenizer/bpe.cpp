#include "runtime/tokenizer/bpe.h"

#include "runtime/tokenizer/utf8.h"

#include <algorithm>
#include <bit>
#include <queue>

namespace cryolite {

namespace {

struct ByteAlphabet {
    std::array<uint32_t, 256> character{};  ///< by byte
    std::array<int, 324> byte{};            ///< by character, -1: none
    std::vector<int> in_order;              ///< bytes by token

    ByteAlphabet() {
        const auto printable = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae; };
        for (int b = 0; b < 256; ++b)
            if (printable(b)) in_order.push_back(b);
        uint32_t next = 256;
        for (int b = 0; b < 256; ++b) {
            character[b] = printable(b) ? static_cast<uint32_t>(b) : next++;
            if (!printable(b)) in_order.push_back(b);
        }
        byte.fill(-1);
        for (int b = 0; b < 256; ++b) byte[character[b]] = b;
    }
};

const ByteAlphabet &alphabet() {
    static const ByteAlphabet instance;
    return instance;
}

uint64_t pair_key(int left, int right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t key, size_t slots) {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots - 1);
}

/// A token of a piece during merging; token -1: it was merged into the one before.
struct Symbol {
    int token;
    int32_t before, after;  ///< the neighbours that remain, -1: none
};

/// The merge of the symbol at `left` with its neighbour. The top of a priority_queue is its largest.
struct Candidate {
    Bpe::Merge merge;
    int32_t left;
    bool operator<(const Candidate &o) const {
        return merge.rank != o.merge.rank ? merge.rank > o.merge.rank : left > o.left;
    }
};

}  // namespace

std::string bytes_of_characters(std::string_view characters) {
    std::string bytes;
    for (size_t i = 0; i < characters.size();) {
        const CodePoint c = code_point_at(characters, i);
        if (c.length == 0 || c.value >= alphabet().byte.size() || alphabet().byte[c.value] < 0) return "";
        bytes += static_cast<char>(alphabet().byte[c.value]);
        i += static_cast<size_t>(c.length);
    }
    return bytes;
}

std::string characters_of_bytes(std::string_view bytes) {
    std::string text;
    for (unsigned char b : bytes) append_utf8(text, alphabet().character[b]);
    return text;
}

const std::vector<int> &bytes_in_order() { return alphabet().in_order; }

void Bpe::reserve(size_t merges) { slots_.assign(std::bit_ceil(2 * merges + 2), {}); }

void Bpe::add(const Pair &pair) {
    const uint64_t key = pair_key(pair.left, pair.right);
    size_t slot = slot_of(key, slots_.size());
    while (slots_[slot].merge.token >= 0 && slots_[slot].pair != key) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {key, pair.merge};
}

Bpe::Merge Bpe::find(int left, int right) const {
    const uint64_t key = pair_key(left, right);
    for (size_t at = slot_of(key, slots_.size()); slots_[at].merge.token >= 0; at = (at + 1) & (slots_.size() - 1))
        if (slots_[at].pair == key) return slots_[at].merge;
    return {};
}

std::vector<Bpe::Pair> Bpe::pairs() const {
    std::vector<Pair> all;
    for (const Slot &s : slots_)
        if (s.merge.token >= 0) all.push_back({static_cast<int>(s.pair >> 32), static_cast<int>(s.pair), s.merge});
    return all;
}

/// Merges the leftmost of equal pairs first. A heap makes it O(n log n), since a piece may be as long as a file.
void Bpe::encode(std::string_view piece, std::vector<int> &tokens) const {
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    std::priority_queue<Candidate> heap;
    const auto consider = [&](int32_t left) {
        if (left < 0 || symbols[left].after < 0) return;
        const Merge merge = find(symbols[left].token, symbols[symbols[left].after].token);
        if (merge.token >= 0) heap.push({merge, left});
    };
    for (const char c : piece)
        if (const auto byte = static_cast<unsigned char>(c); has(byte)) {
            const auto i = static_cast<int32_t>(symbols.size());
            symbols.push_back({byte_token_[byte], i - 1, i + 1});
        }
    if (symbols.empty()) return;
    symbols.back().after = -1;
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) consider(i);
    while (!heap.empty()) {
        const auto [merge, left] = heap.top();
        heap.pop();
        Symbol &l = symbols[left];
        // Out of date: one of the two was merged meanwhile.
        if (l.token < 0 || l.after < 0 || find(l.token, symbols[l.after].token) != merge) continue;
        Symbol &r = symbols[l.after];
        l.token = merge.token;
        l.after = r.after;
        if (r.after >= 0) symbols[r.after].before = left;
        r.token = -1;
        consider(l.before);
        consider(left);
    }
    for (const Symbol &s : symbols)
        if (s.token >= 0) tokens.push_back(s.token);
}

void PieceEncoder::add(std::string_view piece) {
    constexpr size_t most_known = 1 << 18;
    auto found = known_.find(piece);
    if (found == known_.end()) {
        if (known_.size() == most_known) known_.clear(), tokens_of_known_.clear();
        const auto begin = static_cast<uint32_t>(tokens_of_known_.size());
        encode_(piece, tokens_of_known_);
        const auto count = static_cast<uint32_t>(tokens_of_known_.size()) - begin;
        found = known_.emplace(piece, Range{begin, count}).first;
    }
    const auto first = tokens_of_known_.begin() + found->second.begin;
    out_.insert(out_.end(), first, first + found->second.count);
    send();
}

void PieceEncoder::add_token(int token) {
    out_.push_back(token);
    send();
}

void PieceEncoder::send() {
    if (out_.size() < 4096) return;
    sink_(out_);
    out_.clear();
}

void PieceEncoder::finish() {
    if (!out_.empty()) sink_(out_);
    out_.clear();
}

}  // namespace cryolite
