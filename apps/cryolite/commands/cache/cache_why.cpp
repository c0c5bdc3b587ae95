#include "apps/cryolite/commands/cache/cache_why.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "client/nearest_bundle.h"
#include "client/without_compiler.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

void print_people(const std::string &key, bool found, const json &parts, const std::string &app,
                  const std::optional<NearestBundle> &near) {
    fmt::print("bundle {} of {}: {}\n", key.substr(0, 12), app,
               found            ? "in the cache"
               : has_compiler() ? "not in the cache, would be compiled"
                                : "not in the cache, and this build has no compiler");
    for (const auto &[name, value] : flat_parts(parts.dump()))
        fmt::print("  {:24}{}\n", name, name == "program" ? value.substr(0, 12) : value);
    if (found) return;
    if (!near) {
        fmt::print("the cache has no other bundle to compare with\n");
        return;
    }
    fmt::print("nearest: {} of {}, {} old; what differs:\n", near->entry.key.substr(0, 12),
               bundle_about(near->entry).app, age_of(near->entry));
    for (const std::string &line : near->differs) fmt::print("  {}\n", line);
}

}  // namespace

int run_cache_why(const std::vector<std::string> &arguments) {
    const Request request = read_request(Command::train, arguments);
    TrainSettings settings = understand(request);
    data_of_step(settings, request);  // the data decide the vocabulary
    const Cache cache(settings.cache);
    Progress progress;
    take_tuned_lines(settings, request, cache, threads_of_worker(settings, core_numbers()), progress);
    const std::string text = bundle_parts(request.program, bundle_request(settings), cache);
    const std::string key = sha256_hex(text);
    const bool found = find_bundle(cache, key).has_value();
    const std::optional<NearestBundle> near = found ? std::nullopt : nearest_bundle(cache, text);
    if (!settings.json) {
        print_people(key, found, json::parse(text), request.program.app, near);
        return 0;
    }
    json j = {{"key", key}, {"found", found}, {"parts", json::parse(text)}};
    if (near) j["nearest"] = {{"key", near->entry.key}, {"differs", near->differs}};
    fmt::print("{}\n", j.dump());
    return 0;
}

}  // namespace cryolite
