#pragma once
// What pictures of a run share.

#include <string>

namespace cryolite {

/// The fonts of text, of which every viewer has one.
constexpr const char *svg_fonts = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif";

/// Escapes text for an SVG document or an HTML page, also within the quotes of an attribute.
inline std::string svg_text(const std::string &text) {
    std::string out;
    for (unsigned char c : text) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        default:
            out += c < 0x20 && c != '\n' ? ' ' : static_cast<char>(c);  // XML knows no control characters
        }
    }
    return out;
}

}  // namespace cryolite
