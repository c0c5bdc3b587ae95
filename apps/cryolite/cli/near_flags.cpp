#include "apps/cryolite/cli/near_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "bundle/near_names.h"

namespace cryolite {

namespace {

using Parts = std::vector<std::string>;

/// Runs of letters and digits, in small letters: "--grad_clip" is grad and clip.
Parts parts_of(const std::string &text) {
    Parts parts;
    bool inside = false;
    for (const unsigned char c : text) {
        if (std::isalnum(c)) {
            if (!inside) parts.emplace_back();
            parts.back() += char(std::tolower(c));
        }
        inside = std::isalnum(c);
    }
    return parts;
}

/// "layer" and "layers", "accumulate" and "accumulation", "out" and "output".
bool alike(const std::string &a, const std::string &b) {
    const auto common = size_t(std::ranges::mismatch(a, b).in1 - a.begin());
    return a == b || common >= 6 || (common >= 3 && common == std::min(a.size(), b.size()));
}

bool any_alike(const std::string &part, const Parts &parts) {
    return std::ranges::any_of(parts, [&](const std::string &other) { return alike(part, other); });
}

std::string initials(const Parts &parts) {
    std::string text;
    for (const std::string &part : parts) text += part[0];
    return parts.size() > 1 ? text : "";
}

enum Nearness { far, in_help, in_name, abbreviated };

Nearness nearness(const Parts &word, const NamedFlag &flag) {
    const Parts name = parts_of(flag.name), help = parts_of(flag.help);
    auto shortens = [](const Parts &letters, const Parts &whole) {
        return letters.size() == 1 && letters[0] == initials(whole);
    };
    if (shortens(name, word) || shortens(word, name)) return abbreviated;
    if (std::ranges::any_of(word, [&](const std::string &part) { return any_alike(part, name); })) return in_name;
    auto is_in_help = [&](const std::string &part) { return std::ranges::count(help, part) > 0; };
    return std::ranges::all_of(word, is_in_help) ? in_help : far;
}

}  // namespace

std::string flags_meant(const std::string &word, const std::vector<NamedFlag> &flags) {
    constexpr size_t most = 3;
    const std::string plain = word.substr(0, word.find('='));
    const Parts parts = parts_of(plain);
    if (parts.empty()) return "";
    std::vector<std::string> names;
    for (const NamedFlag &f : flags) names.push_back("--" + f.name);
    const std::string dashed = fmt::format("--{}", fmt::join(parts, "-"));
    if (std::string near = did_you_mean(dashed, names); !near.empty()) return near;
    std::vector<std::string> nearest;
    for (const Nearness n : {abbreviated, in_name, in_help}) {
        for (size_t i = 0; i < flags.size() && nearest.size() < most; i++)
            if (nearness(parts, flags[i]) == n) nearest.push_back(names[i]);
        if (!nearest.empty()) return fmt::format(" (did you mean {}?)", fmt::join(nearest, " or "));
    }
    return "";
}

}  // namespace cryolite
