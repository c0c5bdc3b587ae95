#pragma once

#include <string>
#include <string_view>

#include "runtime/io/error.h"

namespace cryolite {

/// Refuses JSON of others that is nested so deeply that a function which visits it could overflow the stack.
inline void check_json_depth(std::string_view text, const std::string &origin) {
    constexpr int most = 100;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > most)
            fail("{}: is nested deeper than {} levels", origin, most);
        else if (!in_string && (c == ']' || c == '}'))
            depth--;
    }
}

}  // namespace cryolite
