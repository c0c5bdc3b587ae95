#include "dsl/param_group.h"

#include <fnmatch.h>

#include <charconv>
#include <cmath>

#include "dsl/error.h"

namespace cryolite {

namespace {

constexpr const char *expected = "PATTERN=lr:NUMBER,decay:NUMBER, numbers from 0 on, with an x after those that "
                                 "multiply, such as wte=lr:0.1x,decay:0";

GroupValue value_of(const std::string &text, const std::string &number) {
    GroupValue v{0, number.ends_with("x")};
    const char *const end = number.data() + number.size() - v.times;
    const auto [stop, error] = std::from_chars(number.data(), end, v.value);
    if (error != std::errc() || stop != end || !std::isfinite(v.value) || v.value < 0)
        fail("the group of parameters '{}' has the number '{}', expected {}", text, number, expected);
    return v;
}

}  // namespace

ParamGroup ParamGroup::parse(const std::string &text) {
    const size_t equals = text.rfind('=');
    ParamGroup g{text, text.substr(0, equals)};
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        fail("the group of parameters '{}' says nothing of a pattern, expected {}", text, expected);
    for (size_t at = equals + 1; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        const std::string one = text.substr(at, comma - at), name = one.substr(0, one.find(':'));
        std::optional<GroupValue> *setting = name == "lr" ? &g.lr : name == "decay" ? &g.decay : nullptr;
        if (!setting || name == one) fail("the group of parameters '{}' sets '{}', expected {}", text, one, expected);
        if (*setting) fail("the group of parameters '{}' sets {} twice", text, name);
        *setting = value_of(text, one.substr(name.size() + 1));
        at = comma + 1;
    }
    return g;
}

bool ParamGroup::matches(const std::string &name) const {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch((pattern + ".*").c_str(), name.c_str(), 0) == 0;
}

}  // namespace cryolite
