#pragma once
// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF; as Python decodes it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cryolite {

struct CodePoint {
    uint32_t value = 0;
    int length = 0;  ///< bytes; 0: not valid UTF-8 here, or the end
};

/// The code point that begins at text[offset].
inline CodePoint code_point_at(std::string_view text, size_t offset) {
    if (offset >= text.size()) return {};
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - offset < static_cast<size_t>(length)) return {};
    uint32_t value = lead & (0x7fu >> length);
    for (int i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {};
        value = value << 6 | (byte(i) & 0x3fu);
    }
    const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = value >= 0xd800 && value < 0xe000;
    if (value < least[length] || value > 0x10ffff || surrogate) return {};
    return {value, length};
}

/// The index of the first byte that is not valid UTF-8; npos: all of the text is.
inline size_t first_not_utf8(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
        const CodePoint c = code_point_at(text, i);
        if (c.length == 0) return i;
        i += static_cast<size_t>(c.length);
    }
    return std::string_view::npos;
}

inline void append_utf8(std::string &text, uint32_t value) {
    if (value < 0x80) {
        text += static_cast<char>(value);
        return;
    }
    const int more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
    const uint32_t mark[] = {0, 0xc0, 0xe0, 0xf0};
    text += static_cast<char>(mark[more] | value >> (6 * more));
    for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (value >> (6 * i) & 0x3f));
}

/// True for a byte that goes on with a code point begun before it.
inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace cryolite
