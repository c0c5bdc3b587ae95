#include "bundle/shown.h"

#include <algorithm>

#include <fmt/format.h>

namespace cryolite {

std::string shown(std::string_view text, size_t limit) {
    std::string safe = "\"";
    for (unsigned char c : text.substr(0, limit)) {
        if (c == '"' || c == '\\') {
            safe += '\\';
            safe += static_cast<char>(c);
        } else if (c >= 0x20 && c < 0x7f) {
            safe += static_cast<char>(c);
        } else {
            safe += fmt::format("\\x{:02x}", c);
        }
    }
    return safe + (text.size() > limit ? "...\"" : "\"");
}

std::string one_line(std::string text, size_t limit) {
    if (text.find('\n') == std::string::npos) return text;
    std::ranges::replace(text, '\n', ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    return text.size() > limit ? text.substr(0, limit) + "..." : text;
}

std::string human_bytes(unsigned long long bytes) {
    if (bytes < 1000) return fmt::format("{} bytes", bytes);
    const char *units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = static_cast<double>(bytes) / 1000;
    int unit = 0;
    for (; value >= 999.95 && unit < 5; ++unit) value /= 1000;
    return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace cryolite
