#include "client/nearest_bundle.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "bundle/step_config.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// A value in one row. Of a flag that counts only as given or not, the key has a bool.
std::string plain(const json &value) {
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    return one_line(value.is_string() ? value.get<std::string>() : value.dump());
}

/// Parts of a key as a flat table: name -> value; settings and parameters as flags.
std::map<std::string, std::string> table(const json &parts) {
    std::map<std::string, std::string> t;
    for (const auto &[name, value] : parts.items()) {
        if (const StepSetting *s = find_by_key(name))
            t["--" + (s->flag.empty() ? s->name : fmt::format("{} ({})", s->flag, s->name))] =
                value.is_number() ? text_of_key(*s, value) : plain(value);
        else if (name != "params")
            t[name] = plain(value);
        else
            for (const auto &[param, v] : value.items()) t["--" + param] = plain(v);
    }
    return t;
}

std::string words(const std::string &name, const std::string &before, const std::string &now) {
    if (name == "program") return "the program changed: its model, its schedule, or the compiler's own sources";
    if (name == "machine") return "another processor";
    if (name == "format") return "another version of the cache";
    return fmt::format("{} {} -> {}", name, before.empty() ? "(none)" : before, now.empty() ? "(none)" : now);
}

}  // namespace

std::map<std::string, std::string> flat_parts(const std::string &parts) { return table(json::parse(parts)); }

BundleAbout bundle_about(const CacheEntry &entry) {
    BundleAbout about;
    const json j = json::parse(entry.about, nullptr, false);
    if (!j.is_object() || !j.contains("parts")) return about;
    about.app = j.value("app", "?");
    about.kernels = j.value("kernels", 0);
    for (const auto &[name, value] : table(j["parts"])) {
        if (name == "program" || name == "machine" || name == "format" || value == "no") continue;
        about.flags += name.substr(name.starts_with("--") ? 2 : 0) + (value == "yes" ? " " : "=" + value + " ");
    }
    if (!about.flags.empty()) about.flags.pop_back();
    return about;
}

std::string age_of(const CacheEntry &entry) {
    const int64_t seconds = std::max<int64_t>(0, time(nullptr) - entry.time);
    if (entry.time == 0) return "?";
    if (seconds < 120) return fmt::format("{} s", seconds);
    if (seconds < 7200) return fmt::format("{} min", seconds / 60);
    if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
    return fmt::format("{} days", seconds / 86400);
}

std::vector<std::string> differences(const std::string &before, const std::string &now) {
    const auto old = table(json::parse(before));
    auto rest = table(json::parse(now));
    std::vector<std::string> lines;
    for (const auto &[name, value] : old) {
        const std::string other = rest.count(name) ? rest[name] : "";
        if (value != other) lines.push_back(words(name, value, other));
        rest.erase(name);
    }
    for (const auto &[name, value] : rest) lines.push_back(words(name, "", value));
    return lines;
}

std::optional<NearestBundle> nearest_bundle(const Cache &cache, const std::string &parts) {
    std::optional<NearestBundle> best;
    for (const CacheEntry &entry : cache.list("bundles")) {
        const json about = json::parse(entry.about, nullptr, false);
        if (!entry.damage.empty() || !about.is_object() || !about.contains("parts")) continue;
        std::vector<std::string> differs = differences(about["parts"].dump(), parts);
        if (!best || differs.size() < best->differs.size()) best = {entry, std::move(differs)};
    }
    return best;
}

}  // namespace cryolite
