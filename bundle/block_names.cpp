#include "bundle/block_names.h"

#include <functional>
#include <set>

namespace cryolite {

namespace {

/// Replaces numbers between dots, which count layers, by stars. A number in a word is part of its name (ln_1).
std::string replaced(const std::string &name, const std::function<void(const std::string &)> &met) {
    std::string out;
    for (size_t i = 0; i < name.size(); i++) {
        const bool starts = i > 0 && name[i - 1] == '.';
        size_t end = i;
        while (end < name.size() && name[end] >= '0' && name[end] <= '9') end++;
        if (end > i && starts && end < name.size() && name[end] == '.')
            met(name.substr(i, end - i)), out += '*', i = end - 1;
        else
            out += name[i];
    }
    return out;
}

}  // namespace

std::string without_numbers(const std::string &name) {
    return replaced(name, [](const std::string &) {});
}

std::string block_numbers(const std::string &name) {
    std::string numbers;
    replaced(name, [&](const std::string &n) { numbers += (numbers.empty() ? "" : ".") + n; });
    return numbers;
}

std::optional<std::string> line_for_blocks(const std::string &line) {
    std::set<std::string> numbers;
    const std::string text = replaced(line, [&](const std::string &number) { numbers.insert(number); });
    return numbers.size() == 1 ? std::optional(text) : std::nullopt;
}

}  // namespace cryolite
