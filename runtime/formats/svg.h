#pragma once
// What pictures of a run share.

#include <string>

namespace cryolite {

/// Text as an SVG document has it.
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
        default:
            out += c < 0x20 ? ' ' : static_cast<char>(c);  // XML knows no control characters
        }
    }
    return out;
}

}  // namespace cryolite
