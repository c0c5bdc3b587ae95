#include "bundle/param_group.h"

#include <fnmatch.h>

#include <charconv>
#include <cmath>

namespace cryolite {

namespace {

std::optional<GroupValue> value_of(const std::string &number) {
    GroupValue v{0, number.ends_with("x")};
    const char *const end = number.data() + number.size() - v.times;
    const auto [stop, error] = std::from_chars(number.data(), end, v.value);
    if (error != std::errc() || stop != end || !std::isfinite(v.value) || v.value < 0) return std::nullopt;
    return v;
}

}  // namespace

const std::string ParamGroup::expected =
    "PATTERN=lr:NUMBER,decay:NUMBER, one or both of them once, numbers from 0 on, with an x after those that multiply, "
    "such as wte=lr:0.1x,decay:0";

std::optional<ParamGroup> ParamGroup::parse(const std::string &text) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    ParamGroup g{text, text.substr(0, equals)};
    for (size_t at = equals + 1; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        const std::string one = text.substr(at, comma - at), name = one.substr(0, one.find(':'));
        std::optional<GroupValue> *setting = name == "lr" ? &g.lr : name == "decay" ? &g.decay : nullptr;
        if (!setting || *setting || name == one) return std::nullopt;
        *setting = value_of(one.substr(name.size() + 1));
        if (!*setting) return std::nullopt;
        at = comma + 1;
    }
    return g;
}

bool ParamGroup::matches(const std::string &name) const {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch((pattern + ".*").c_str(), name.c_str(), 0) == 0;
}

}  // namespace cryolite
