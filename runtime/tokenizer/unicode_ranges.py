"""Writes unicode_ranges.h: the code points of \\p{L}, \\p{N} and \\s, as ranges.

    python3 runtime/tokenizer/unicode_ranges.py > runtime/tokenizer/unicode_ranges.h

\\s is the property White_Space, as in the `regex` module and in Rust: str.isspace() without the separators
U+001C ... U+001F, which Python adds.
"""
import sys
import unicodedata


def ranges(belongs):
    found = []
    for code in range(0x110000):
        if belongs(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def table(name, comment, found):
    pairs = ["{0x%x, 0x%x}," % (first, last) for first, last in found]
    lines, line = [], "   "
    for pair in pairs:
        if len(line) + 1 + len(pair) > 100:
            lines.append(line)
            line = "   "
        line += " " + pair
    lines.append(line)
    print(f"/// {comment}")
    print(f"inline constexpr CodeRange {name}[] = {{")
    print("\n".join(lines))
    print("};\n")


print(f"""#pragma once
// Made by runtime/tokenizer/unicode_ranges.py from Unicode {unicodedata.unidata_version}: change that, not this.
// clang-format off

#include <cstdint>

namespace cryolite::unicode {{

/// Code points first ... last, both included.
struct CodeRange {{
    uint32_t first, last;
}};
""")
table("letters", "\\p{L}", ranges(lambda c: unicodedata.category(c)[0] == "L"))
table("numbers", "\\p{N}", ranges(lambda c: unicodedata.category(c)[0] == "N"))
table("spaces", "\\s", ranges(lambda c: c.isspace() and not 0x1C <= ord(c) <= 0x1F))
print("}  // namespace cryolite::unicode")
sys.stdout.flush()
