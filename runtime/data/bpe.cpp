#include "runtime/data/tokenizer.h"
#include "runtime/data/utf8.h"
#include "runtime/io/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

namespace cryolite {

namespace {

constexpr std::string_view end_of_text_name = "<|endoftext|>";

/// GPT-2 writes each byte as a printable character: itself if it is one, else 256, 257, ... The
/// bytes' tokens are numbered in that order too, the printable ones first.
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

/// The bytes that a token of a merges line stands for; empty when it is none.
std::string bytes_of(std::string_view token) {
    std::string bytes;
    for (size_t i = 0; i < token.size();) {
        const CodePoint c = code_point_at(token, i);
        if (c.length == 0 || c.value >= alphabet().byte.size() || alphabet().byte[c.value] < 0) return "";
        bytes += static_cast<char>(alphabet().byte[c.value]);
        i += static_cast<size_t>(c.length);
    }
    return bytes;
}

std::string characters_of(std::string_view bytes) {
    std::string text;
    for (unsigned char b : bytes) append_utf8(text, alphabet().character[b]);
    return text;
}

uint64_t pair_key(int left, int right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t key, size_t slots) {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots - 1);
}

/// Calls merge(number, line) for each line that should be a merge; lines are numbered from 1.
template <typename Merge> void for_each_merge(std::string_view merges, Merge merge) {
    size_t number = 0;
    for (size_t begin = 0, end; begin < merges.size(); begin = end + 1) {
        end = std::min(merges.find('\n', begin), merges.size());
        std::string_view line = merges.substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++number;
        if (!line.empty() && !(number == 1 && line.starts_with("#version"))) merge(number, line);
    }
}

/// A token of a piece while it is merged; -1: it is a part of the one before.
struct Symbol {
    int token;
    int32_t before, after;  ///< the neighbours that are left, -1: none
};

/// The merge of the symbol at `left` with its neighbour. The top of a priority_queue is its
/// largest.
struct Candidate {
    int token;
    int32_t left;
    bool operator<(const Candidate &o) const { return token != o.token ? token > o.token : left > o.left; }
};

}  // namespace

void BpeTokenizer::add_pair(int left, int right, int token) {
    const uint64_t key = pair_key(left, right);
    size_t slot = slot_of(key, pairs_.size());
    while (pairs_[slot].token >= 0) slot = (slot + 1) & (pairs_.size() - 1);
    pairs_[slot] = {key, token};
}

int BpeTokenizer::merged(int left, int right) const {
    const uint64_t key = pair_key(left, right);
    for (size_t slot = slot_of(key, pairs_.size()); pairs_[slot].token >= 0; slot = (slot + 1) & (pairs_.size() - 1))
        if (pairs_[slot].pair == key) return pairs_[slot].token;
    return -1;
}

void BpeTokenizer::add_piece(std::string_view bytes) {
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    bytes_ += bytes;
}

std::shared_ptr<const BpeTokenizer> BpeTokenizer::from_merges(std::string_view merges, const std::string &origin) {
    if (merges.size() > (1u << 30)) fail("{}: {} are no merges of a tokenizer", origin, human_bytes(merges.size()));
    const auto lines = static_cast<size_t>(std::count(merges.begin(), merges.end(), '\n')) + 1;
    std::shared_ptr<BpeTokenizer> made(new BpeTokenizer);
    made->pairs_.resize(std::bit_ceil(2 * lines + 2));
    // Views into bytes_ are the keys, so it must not move. A merge has fewer bytes than its line.
    made->bytes_.reserve(merges.size() + 256 + end_of_text_name.size());
    std::unordered_map<std::string_view, int> token_of;
    token_of.reserve(lines + 256);
    const auto add = [&](std::string_view bytes) {
        made->add_piece(bytes);
        return token_of.emplace(made->piece(made->size() - 1), made->size() - 1).second;
    };
    for (int b : alphabet().in_order) {
        made->byte_token_[static_cast<size_t>(b)] = made->size();
        add(std::string(1, static_cast<char>(b)));
    }
    for_each_merge(merges, [&](size_t number, std::string_view line) {
        const size_t space = std::min(line.find(' '), line.size() - 1);
        const std::string left = bytes_of(line.substr(0, space));
        const std::string right = bytes_of(line.substr(space + 1));
        const auto a = token_of.find(left), b = token_of.find(right);
        if (a == token_of.end() || b == token_of.end())
            fail("{}: line {}: {} is not a pair of tokens made before it", origin, number, shown(line));
        const int first = a->second, second = b->second, token = made->size();
        if (!add(left + right)) fail("{}: line {}: {} makes a token that exists already", origin, number, shown(line));
        made->add_pair(first, second, token);
    });
    if (made->size() == 256) fail("{}: no merges; expected a file like GPT-2's vocab.bpe", origin);
    made->add_piece(end_of_text_name);
    return made;
}

/// Appends the tokens of one piece: while any two neighbours have a merge, the earliest merge in
/// the list is done, leftmost first. A heap makes it n log n, since a piece may be as long as a
/// file.
void BpeTokenizer::merge(std::string_view piece, std::vector<int> &tokens) const {
    const auto count = static_cast<int32_t>(piece.size());
    std::vector<Symbol> symbols(piece.size());
    std::priority_queue<Candidate> heap;
    const auto consider = [&](int32_t left) {
        if (left < 0 || symbols[left].after < 0) return;
        const int token = merged(symbols[left].token, symbols[symbols[left].after].token);
        if (token >= 0) heap.push({token, left});
    };
    for (int32_t i = 0; i < count; ++i)
        symbols[i] = {byte_token_[static_cast<unsigned char>(piece[i])], i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i < count; ++i) consider(i);
    while (!heap.empty()) {
        const auto [token, left] = heap.top();
        heap.pop();
        Symbol &l = symbols[left];
        // Out of date: one of the two was merged meanwhile.
        if (l.token < 0 || l.after < 0 || merged(l.token, symbols[l.after].token) != token) continue;
        Symbol &r = symbols[l.after];
        l.token = token;
        l.after = r.after;
        if (r.after >= 0) symbols[r.after].before = left;
        r.token = -1;
        consider(l.before);
        consider(left);
    }
    for (const Symbol &s : symbols)
        if (s.token >= 0) tokens.push_back(s.token);
}

void BpeTokenizer::encode_to(std::string_view text, const Sink &sink, size_t offset) const {
    // Most words come again: each is merged once. The keys are views into `text`.
    struct Range {
        uint32_t begin, count;
    };
    constexpr size_t cache_limit = 1 << 18;
    if (text.size() > INT32_MAX) fail("a text of {} is too long to encode at once", human_bytes(text.size()));
    std::unordered_map<std::string_view, Range> cache;
    std::vector<int> merged_tokens, out;
    out.reserve(8192);
    for_each_pretoken(text, offset, [&](std::string_view piece) {
        auto found = cache.find(piece);
        if (found == cache.end()) {
            if (cache.size() == cache_limit) {
                cache.clear();
                merged_tokens.clear();
            }
            const auto begin = static_cast<uint32_t>(merged_tokens.size());
            merge(piece, merged_tokens);
            const auto count = static_cast<uint32_t>(merged_tokens.size()) - begin;
            found = cache.emplace(piece, Range{begin, count}).first;
        }
        const auto first = merged_tokens.begin() + found->second.begin;
        out.insert(out.end(), first, first + found->second.count);
        if (out.size() >= 4096) {
            sink(out);
            out.clear();
        }
    });
    if (!out.empty()) sink(out);
}

std::string_view BpeTokenizer::piece(int token) const {
    check_token(token);
    const size_t begin = offsets_[static_cast<size_t>(token)];
    const size_t end = token + 1 < size() ? offsets_[static_cast<size_t>(token) + 1] : bytes_.size();
    return std::string_view(bytes_).substr(begin, end - begin);
}

std::string BpeTokenizer::to_json() const {
    std::vector<std::string> merges(static_cast<size_t>(size()) - 257);
    for (const Slot &slot : pairs_)
        if (slot.token >= 0)
            merges[static_cast<size_t>(slot.token) - 256] =
                characters_of(piece(static_cast<int>(slot.pair >> 32))) + " " +
                characters_of(piece(static_cast<int>(slot.pair & 0xffffffff)));
    return nlohmann::json{{"type", "gpt2"}, {"merges", merges}}.dump();
}

}  // namespace cryolite
