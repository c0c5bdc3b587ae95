#include "bundle/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "bundle/loss_scale.h"
#include "bundle/param_group.h"
#include "bundle/target.h"

namespace cryolite {

namespace {

template <typename... F> struct Overloaded : F... { using F::operator()...; };

/// "1e30", not "1e+30"
std::string number_text(double x) {
    std::string text = fmt::format("{}", x);
    if (const size_t at = text.find("e+"); at != std::string::npos) text.erase(at + 1, 1);
    return text;
}

std::string range_text(const RealRange &r) {
    if (r.low <= std::numeric_limits<float>::lowest()) return "a finite number";
    return fmt::format("a number {} {}{} {}", r.above ? "above" : "from", number_text(r.low),
                       r.below   ? " to below"
                       : r.above ? ", up to"
                                 : " to",
                       number_text(r.high));
}

std::string range_text(const Setting &s) {
    return std::visit(
        Overloaded{
            [](const WholeRange &r) {
                return r.high == std::numeric_limits<uint64_t>::max()
                           ? fmt::format("a whole number from {} on", r.low)
                           : fmt::format("a whole number from {} to {}", r.low, r.high);
            },
            [](const RealRange &r) { return range_text(r); },
            [](const PowerOfTwo &r) {
                return fmt::format("a power of two from {} to {}", number_text(r.low), number_text(r.high));
            },
            [](Setting::Switch) { return std::string("true or false"); },
            [](Setting::Bytes) {
                return std::string("bytes, such as 2350000000, 40MB or 1.5GiB (kB, MB, GB, TB, KiB, MiB, GiB, TiB)");
            },
            [](Setting::Seconds) { return std::string("a time from 0.1s to 1000h, such as 90s, 15min or 2h"); },
            [](Setting::Words) { return std::string(); },
            [](Setting::Groups) { return ParamGroup::expected; },
            [](Setting::Targets) { return expected_targets(); },
            [](auto) { return std::string("a value"); },
        },
        s.range);
}

std::optional<uint64_t> whole_of(const std::string &text, const WholeRange &r) {
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < r.low || value > r.high) return std::nullopt;
    return value;
}

std::optional<double> real_of(const std::string &text, const RealRange &r) {
    double value = 0;
    const char *begin = text.data(), *end = begin + text.size();
    if (begin != end && *begin == '+') begin++;
    auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end || !r.holds(value)) return std::nullopt;
    return value;
}

std::optional<double> power_of(const std::string &text, const PowerOfTwo &r) {
    const auto value = real_of(text, RealRange{.low = r.low, .high = r.high});
    return value && is_power_of_two(*value) ? value : std::nullopt;
}

std::optional<double> seconds_of(const std::string &text) {
    static const std::map<std::string_view, double> units = {{"", 1},   {"ms", 1e-3}, {"s", 1},
                                                             {"m", 60}, {"min", 60},  {"h", 3600}};
    double value = 0;
    const char *end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    const auto unit = units.find(std::string_view(rest, size_t(end - rest)));
    if (error != std::errc() || unit == units.end()) return std::nullopt;
    value *= unit->second;
    if (!(value >= 0.1 && value <= 3.6e6)) return std::nullopt;  // also nan
    return value;
}

/// Stores a value where it belongs; a string or path keeps the text. False: there is no value.
template <typename T> bool put(const std::optional<T> &value, const std::string &text, ValueRef into) {
    if (!value) return false;
    std::visit(Overloaded{
                   [&](std::string *at) { *at = text; },
                   [&](std::filesystem::path *at) { *at = text; },
                   [&](auto *at) { *at = static_cast<std::remove_pointer_t<decltype(at)>>(*value); },
               },
               into);
    return true;
}

}  // namespace

std::string Setting::key() const {
    std::string key = name;
    std::ranges::replace(key, '-', '_');
    return key;
}

std::string expected(const Setting &s) {
    const std::string range = range_text(s);
    std::string words;
    for (size_t i = 0; i < s.words.size(); i++)
        words += (i == 0 ? "" : range.empty() ? " or " : ", ") + s.words[i].text;
    return words + (words.empty() || range.empty() ? "" : " or ") + range;
}

bool read_value(const Setting &s, const std::string &text, ValueRef into) {
    for (const Setting::Word &w : s.words)
        if (w.text == text) return put(std::optional(w.value), text, into);
    const std::optional<std::string> some =
        text.empty() || text.find('\0') != std::string::npos ? std::nullopt : std::optional(text);
    return std::visit(Overloaded{
                          [&](const WholeRange &r) { return put(whole_of(text, r), text, into); },
                          [&](const RealRange &r) { return put(real_of(text, r), text, into); },
                          [&](const PowerOfTwo &r) { return put(power_of(text, r), text, into); },
                          [&](Setting::Switch) {
                              return (text == "true" || text == "false") &&
                                     put(std::optional(text == "true"), text, into);
                          },
                          [&](Setting::Bytes) { return put(bytes_of(text), text, into); },
                          [&](Setting::Seconds) { return put(seconds_of(text), text, into); },
                          [](Setting::Words) { return false; },
                          [&](Setting::Groups) {
                              return std::ranges::all_of(
                                         list_items(text, s.list),
                                         [](const std::string &item) { return ParamGroup::parse(item).has_value(); }) &&
                                     put(std::optional(0), text, into);
                          },
                          [&](Setting::Targets) { return targets_of(text) && put(std::optional(0), text, into); },
                          [&](auto) { return some && put(std::optional(0), text, into); },
                      },
                      s.range);
}

std::string text_of(const Setting &s, ValueRef value) {
    const bool has_words = !s.words.empty();
    auto number = [&](auto x) -> std::string {
        for (const Setting::Word &w : s.words)
            if (static_cast<decltype(x)>(w.value) == x) return w.text;
        return fmt::format("{}{}", x, std::holds_alternative<Setting::Seconds>(s.range) ? "s" : "");
    };
    return std::visit(
        Overloaded{
            [](std::string *at) { return at->empty() ? "none" : *at; },
            [](std::filesystem::path *at) { return at->empty() ? "none" : std::filesystem::absolute(*at).string(); },
            [&](bool *at) { return has_words ? number(*at)
                                   : *at     ? "true"
                                             : "false"; },
            [&](auto *at) { return number(*at); },
        },
        value);
}

std::vector<std::string> list_items(std::string_view text, char between) {
    std::vector<std::string> items;
    for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(between, begin), text.size());
        items.emplace_back(text.substr(begin, end - begin));
    }
    return items;
}

std::optional<uint64_t> bytes_of(std::string_view text) {
    const char *const end = text.data() + text.size();
    double value = 0;
    auto [unit, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    if (unit != end && *unit == ' ') unit++;
    double scale = 0, decimal = 1, binary = 1;
    std::string rest(unit, end);
    if (rest.starts_with('K')) rest[0] = 'k';  // both are common
    if (rest.empty()) scale = 1;
    for (const char *prefix : {"k", "M", "G", "T"}) {
        decimal *= 1000, binary *= 1024;
        if (rest == std::string(prefix) + "B") scale = decimal;
        if (rest == std::string(prefix) + "iB") scale = binary;
    }
    value *= scale;
    if (!(value >= 1 && value < 0x1p63)) return std::nullopt;  // also nan
    return uint64_t(value);
}

}  // namespace cryolite
