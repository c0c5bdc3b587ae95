#include "apps/cryolite/cli/values.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "runtime/io/error.h"
#include "runtime/plan/memory_left.h"

namespace cryolite {

void Values::give(const std::string &flag, Given value) {
    auto [at, fresh] = values_.emplace(flag, value);
    if (!fresh && at->second.origin <= value.origin) at->second = std::move(value);
}

bool Values::chosen(const std::string &flag) const {
    auto at = values_.find(flag);
    return at != values_.end() && at->second.origin != Origin::preset;
}

const std::string *Values::find(const std::string &flag) const {
    auto at = values_.find(flag);
    return at == values_.end() ? nullptr : &at->second.text;
}

void Values::refuse(const std::string &flag, const std::string &expected) const {
    const Given &given = values_.at(flag);
    const std::string where = given.where.empty() ? "" : fmt::format(" ({})", given.where);
    fail_usage("--{} is {}{}, expected {}", flag, shown(given.text), where, expected);
}

std::string Values::text(const std::string &flag, const std::string &otherwise) const {
    const std::string *text = find(flag);
    if (text && (text->empty() || text->find('\0') != std::string::npos)) refuse(flag, "a value");
    return text ? *text : otherwise;
}

uint64_t Values::whole(const std::string &flag, uint64_t low, uint64_t high,
                       uint64_t otherwise, const std::string &words) const {
    const std::string *text = find(flag);
    if (!text) return otherwise;
    const std::string expected = words + (high == ~uint64_t{0}
                                              ? fmt::format("a whole number from {} on", low)
                                              : fmt::format("a whole number from {} to {}", low, high));
    uint64_t value = 0;
    const char *end = text->data() + text->size();
    auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc() || stop != end || value < low || value > high) refuse(flag, expected);
    return value;
}

uint64_t Values::bytes(const std::string &flag, const std::string &words) const {
    const std::optional<uint64_t> bytes = parse_bytes(*find(flag));
    if (!bytes) refuse(flag, words + "bytes, such as 2350000000, 40MB or 1.5GiB");
    return *bytes;
}

double Values::seconds(const std::string &flag, double otherwise) const {
    const std::string *text = find(flag);
    if (!text) return otherwise;
    const char *expected = "a time from 0.1s to 1000h, such as 90s, 1.5m or 2h";
    double value = 0;
    const char *const end = text->data() + text->size();
    auto [rest, error] = std::from_chars(text->data(), end, value, std::chars_format::fixed);
    static const std::map<std::string_view, double> units = {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const auto unit = units.find(std::string_view(rest, size_t(end - rest)));
    if (error != std::errc() || unit == units.end()) refuse(flag, expected);
    value *= unit->second;
    if (!(value >= 0.1 && value <= 3.6e6)) refuse(flag, expected);  // also nan
    return value;
}

double Values::number(const std::string &flag, const std::string &expected) const {
    const std::string &text = *find(flag);
    double value = 0;
    const char *begin = text.data(), *end = begin + text.size();
    if (begin != end && *begin == '+') begin++;
    auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end || !std::isfinite(value)) refuse(flag, expected);
    return value;
}

double Values::real(const std::string &flag, double otherwise) const {
    if (!find(flag)) return otherwise;
    const char *expected = "a number from 0 to 1e30";
    double value = number(flag, expected);
    if (value < 0 || value > 1e30) refuse(flag, expected);
    return value;
}

double Values::positive(const std::string &flag, double otherwise) const {
    if (!find(flag)) return otherwise;
    const char *expected = "a number above 0, up to 1e30";
    double value = number(flag, expected);
    if (value <= 0 || value > 1e30) refuse(flag, expected);
    return value;
}

double Values::fraction(const std::string &flag, double otherwise) const {
    if (!find(flag)) return otherwise;
    const char *expected = "a number from 0 to below 1";
    double value = number(flag, expected);
    if (value < 0 || value >= 1) refuse(flag, expected);
    return value;
}

bool Values::yes(const std::string &flag) const {
    const std::string *text = find(flag);
    if (!text || *text == "false") return false;
    if (*text != "true") refuse(flag, "true or false");
    return true;
}

std::string Values::word(const std::string &flag, const std::vector<std::string> &words,
                         const std::string &otherwise) const {
    const std::string *text = find(flag);
    if (!text) return otherwise;
    for (const std::string &word : words)
        if (*text == word) return word;
    refuse(flag, fmt::format("{}", fmt::join(words, " or ")));
}

}  // namespace cryolite
