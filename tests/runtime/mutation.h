#pragma once
// Damage of files, drawn from a number: the same number, the same damage.

#include <random>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

/// The bytes with one to three bits flipped, a byte or a block of zeros in place of others, cut, or longer;
/// never the same.
inline std::string mutated(const std::string &bytes, uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return n ? random() % n : 0; };
    for (;;) {
        std::string out = bytes;
        switch (random() % 6) {
        case 0:
        case 1:
            for (size_t flips = 1 + below(3); flips > 0 && !out.empty(); --flips)
                out[below(out.size())] ^= static_cast<char>(1 << below(8));
            break;
        case 2:
            out.resize(below(out.size()));
            break;
        case 3:
            out.insert(below(out.size() + 1), std::string(1 + below(20), static_cast<char>(random())));
            break;
        case 4:
            if (const size_t at = below(out.size()), n = std::min<size_t>(512, out.size() - at); n)
                out.replace(at, n, n, '\0');
            break;
        default:
            out += out.substr(below(out.size()));
        }
        if (out != bytes) return out;
    }
}

/// How many damages of each file a test tries: few by themselves, CRYOLITE_MUTATIONS at length.
inline int mutations(int few) {
    const char *text = ::getenv("CRYOLITE_MUTATIONS");
    return text ? std::atoi(text) : few;
}

}  // namespace cryolite::test
