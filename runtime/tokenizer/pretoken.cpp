// GPT-2's splitting pattern, by hand and with the Unicode classes of tiktoken (unicode_ranges.h).

#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/tokenizer/unicode_ranges.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/io/error.h"

#include <algorithm>

namespace cryolite {

namespace {

enum class Kind : unsigned char { letter, number, space, other, end };

template <size_t count> bool within(const unicode::CodeRange (&ranges)[count], uint32_t code) {
    const auto *after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                         [](uint32_t c, const auto &range) { return c < range.first; });
    return after != std::begin(ranges) && code <= std::prev(after)->last;
}

Kind kind_by_ranges(uint32_t code) {
    if (within(unicode::letters, code)) return Kind::letter;
    if (within(unicode::numbers, code)) return Kind::number;
    return within(unicode::spaces, code) ? Kind::space : Kind::other;
}

Kind kind_of(uint32_t code) {
    static const auto ascii = [] {
        std::array<Kind, 128> kinds{};
        for (uint32_t c = 0; c < 128; ++c) kinds[c] = kind_by_ranges(c);
        return kinds;
    }();
    return code < 128 ? ascii[code] : kind_by_ranges(code);
}

struct Scanner {
    std::string_view text;
    size_t offset;  ///< of text[0], for messages

    struct Item {
        Kind kind = Kind::end;
        size_t length = 0;
    };

    Item at(size_t position) const {
        if (position == text.size()) return {};
        const CodePoint c = code_point_at(text, position);
        if (c.length == 0)
            fail("not UTF-8 text: byte 0x{:02x} at offset {}", static_cast<unsigned char>(text[position]),
                 offset + position);
        return {kind_of(c.value), static_cast<size_t>(c.length)};
    }

    /// The bytes of a contraction ('s 't 're 've 'm 'll 'd); 0: there is none.
    size_t contraction(size_t position) const {
        const std::string_view two = text.substr(position + 1, 2);
        if (two == "re" || two == "ve" || two == "ll") return 3;
        return !two.empty() && std::string_view("stmd").find(two[0]) != std::string_view::npos ? 2 : 0;
    }

    /// White space gives its last character to the word behind it: \s+(?!\S)|\s+
    size_t spaces(size_t begin) const {
        size_t end = begin, last = begin;
        for (Item item = at(begin); item.kind == Kind::space; item = at(end)) {
            last = end;
            end += item.length;
        }
        return end == text.size() || last == begin ? end : last;
    }

    /// Where the match that begins at `begin` ends.
    size_t match(size_t begin) const {
        if (text[begin] == '\'')
            if (const size_t length = contraction(begin)) return begin + length;
        Item item = at(begin);
        size_t end = begin;
        if (text[begin] == ' ')  // the optional space in front of a word
            if (const Item second = at(begin + 1); second.kind != Kind::space && second.kind != Kind::end) {
                item = second;
                end = begin + 1;
            }
        if (item.kind == Kind::space) return spaces(begin);
        const Kind kind = item.kind;
        for (; item.kind == kind; item = at(end)) end += item.length;
        return end;
    }
};

}  // namespace

void for_each_pretoken(std::string_view text, size_t offset, const std::function<void(std::string_view)> &piece) {
    const Scanner scanner{text, offset};
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = scanner.match(begin);
        piece(text.substr(begin, end - begin));
        begin = end;
    }
}

}  // namespace cryolite
