#include "apps/cryolite/session/tuned_lines.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cryolite/session/session.h"
#include "runtime/collective/processes.h"
#include "runtime/device/hardware.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

SearchMachine search_machine(int threads, const std::string &device) {
    std::string text = machine_id();
    for (int cache = 0;; cache++) {
        std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", cache));
        std::string size;
        if (!(in >> size)) break;
        text += "|" + size;
    }
    if (device != "cpu") text += "|" + hardware_of(device).name;
    return {sha256_hex(text).substr(0, 16), threads};
}

std::string step_digest(const TrainSettings &s, const Request &request, const Cache &cache) {
    json parts = json::parse(bundle_parts(request.program, bundle_request(s), cache));
    for (const char *part : {"program", "machine", "tuned"}) parts.erase(part);
    parts["app"] = request.app;
    return sha256_hex(parts.dump()).substr(0, 32);
}

namespace {

/// Says so if a search found lines for a step that differs from this one by a flag. They are not lines of this one.
void say_of_others(const TrainSettings &s, const SearchRecords &records, const Request &request, const Cache &cache,
                   Progress &progress) {
    const auto has_lines = [&](const TrainSettings &other) {
        const auto found = records.choice(step_digest(other, request, cache));
        return found && !found->lines.empty();
    };
    TrainSettings other = s;
    other.clip = s.clips() ? 0 : 1;
    if (has_lines(other))
        progress.say(fmt::format("tuned: none; `cryolite tune` found lines for this step {} clipping: {} uses them",
                                 s.clips() ? "without" : "with", s.clips() ? "--clip 0" : "--clip 1"));
    if (s.lines == "none") return;
    other = s, other.lines = "none", other.schedule.clear(), other.lines_from.clear();
    if (has_lines(other))
        progress.say(fmt::format("tuned: none; `cryolite tune` found lines for this step without {0}; to use both, "
                                 "write those lines with cryolite tune {1} --export FILE, and add them to those of {0}",
                                 s.schedule.empty() ? "--lines" : "--schedule", request.app));
}

/// None: a step may be compiled for a device that this machine does not have. No search has found lines for it here.
std::optional<SearchMachine> machine_with(const std::string &device, int threads) {
    try {
        return search_machine(threads, device);
    } catch (const Error &) {
        return std::nullopt;
    }
}

}  // namespace

void take_tuned_lines(TrainSettings &s, const Request &request, const Cache &cache, int threads, Progress &progress) {
    if (s.tuned != "auto") return;
    s.tuned = "none";
    Processes &all = known_processes();
    std::string lines;
    std::optional<SearchMachine> machine;
    if (all.rank() == 0 && fs::exists(SearchRecords::file(cache.folder()))) machine = machine_with(s.device, threads);
    if (machine) {
        const SearchRecords records(cache.folder(), *machine);
        const auto found = records.choice(step_digest(s, request, cache));
        if (!found || found->lines.empty()) {
            say_of_others(s, records, request, cache, progress);
        } else {
            lines = found->lines;
            progress.say(fmt::format("tuned: {} line{} that `cryolite tune` found for this step, {:.2f} ms instead of "
                                     "{:.2f}{}; --tuned none does without",
                                     1 + std::ranges::count(lines, ';'),
                                     lines.find(';') == std::string::npos ? "" : "s", 1e3 * found->after,
                                     1e3 * found->before, found->same_bits ? ", with the same bits" : ""));
        }
    }
    uint64_t size = lines.size();
    all.broadcast(std::as_writable_bytes(std::span(&size, 1)));
    lines.resize(size);
    all.broadcast(std::as_writable_bytes(std::span(lines)));
    if (!lines.empty()) s.tuned = lines;
}

}  // namespace cryolite
