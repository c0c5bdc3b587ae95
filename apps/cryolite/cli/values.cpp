#include "apps/cryolite/cli/values.h"

#include "bundle/near_names.h"
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

void Values::refuse(const std::string &flag, const std::string &expected) const {
    const Given &given = values_.at(flag);
    const std::string where = given.where.empty() ? "" : fmt::format(" ({})", given.where);
    fail_usage("--{} is {}{}, expected {}", flag, shown(given.text), where, expected);
}

std::string Values::text(const std::string &flag, const std::string &otherwise) const {
    const auto at = values_.find(flag);
    if (at == values_.end()) return otherwise;
    const std::string &text = at->second.text;
    if (text.empty() || text.find('\0') != std::string::npos) refuse(flag, "a value");
    return text;
}

void Values::read(const Setting &s, ValueRef into) const {
    const auto at = values_.find(s.name);
    if (at == values_.end() || read_value(s, at->second.text, into)) return;
    std::vector<std::string> words;
    for (const Setting::Word &w : s.words) words.push_back(w.text);
    refuse(s.name, expected(s) + did_you_mean(at->second.text, words));
}

}  // namespace cryolite
