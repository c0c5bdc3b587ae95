#include "apps/cryolite/explain/explain_launches.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fmt/ranges.h>
#include <sstream>

#include "runtime/device/cuda/kernel_launcher.h"
#include "runtime/io/error.h"
#include "runtime/io/files.h"
#include "runtime/system/process.h"

namespace cryolite {

using nlohmann::json;

namespace {

/// The path of ptxas, which is on PATH or where the CUDA Toolkit puts it. Empty: it is not found.
std::string find_ptxas() {
    const char *path = std::getenv("PATH"), *home = std::getenv("CUDA_HOME");
    std::istringstream folders(fmt::format("{}:{}/bin:/usr/local/cuda/bin", path ? path : "", home ? home : ""));
    for (std::string folder; std::getline(folders, folder, ':');)
        if (const std::string file = folder + "/ptxas"; access(file.c_str(), X_OK) == 0) return file;
    return "";
}

/// The number before `words` in `text`; 0 if `text` does not contain them.
int number_before(const std::string &text, const std::string &words) {
    const size_t at = text.find(words);
    if (at == std::string::npos) return 0;
    const size_t begin = text.find_last_not_of("0123456789", at - 1);
    return std::atoi(text.c_str() + begin + 1);
}

std::string accesses_in_words(const std::map<int, int> &counts) {
    std::vector<std::string> words;
    for (auto at = counts.rbegin(); at != counts.rend(); ++at)
        words.push_back(fmt::format("{} of {} B", at->second, at->first));
    return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string size_in_words(const std::array<int, 3> &n) {
    return n[2] > 1   ? fmt::format("{} x {} x {}", n[0], n[1], n[2])
           : n[1] > 1 ? fmt::format("{} x {}", n[0], n[1])
                      : fmt::format("{}", n[0]);
}

json accesses_json(const std::map<int, int> &counts) {
    json j = json::object();
    for (auto &[bytes, n] : counts) j[std::to_string(bytes)] = n;
    return j;
}

}  // namespace

LaunchReport::LaunchReport(const Bundle &bundle, const std::string &target)
    : bundle_(bundle), target_(target.starts_with("sm_") ? target : "sm_80"), capability_(std::stoi(target_.substr(3))),
      ptxas_(find_ptxas()) {}

int LaunchReport::launches(const std::string &pass) const {
    int count = 0;
    for (const PlanCall &c : bundle_.plan.plans.at(pass))
        if (c.kernel >= 0) count += int(launches_of(bundle_, c.kernel).size());
    return count;
}

const std::vector<LaunchReport::Judged> &LaunchReport::judged(int kernel) {
    const auto [at, is_new] = known_.try_emplace(kernel);
    if (!is_new) return at->second;
    for (KernelLaunch &l : launches_of(bundle_, kernel)) at->second.push_back({std::move(l)});
    int threads = 1;
    for (const Judged &j : at->second) threads = std::max(threads, j.launch.threads_of_block());
    for (Judged &j : at->second) j.registers = KernelLauncher::most_registers(threads);
    if (!at->second.empty() && !ptxas_.empty()) ask_ptxas(at->second);
    return at->second;
}

/// Reads what ptxas prints: "ptxas info    : Compiling entry function 'ENTRY' for 'sm_80'", then registers and spills.
void LaunchReport::ask_ptxas(std::vector<Judged> &launches) const {
    const TemporaryFolder folder(fs::temp_directory_path() / "cryolite-launches");
    const fs::path file = folder.path() / "kernel.ptx";
    write_file_atomic(file, launches[0].launch.ptx);
    const ProcessResult r =
        run_process({.argv = {ptxas_, "-v", "-arch=" + target_, fmt::format("--maxrregcount={}", launches[0].registers),
                              "-o", folder.path() / "kernel.cubin", file},
                     .time_limit = 120});
    const std::string said = r.errors + r.output;
    if (!r.ok()) fail("{} failed on a kernel's PTX: {}\n{}", ptxas_, how_it_ended(r), last_lines(said));
    for (Judged &j : launches) {
        const size_t at = said.find("function '" + j.launch.entry + "'");
        if (at == std::string::npos) fail("{} says nothing of {}", ptxas_, j.launch.entry);
        const std::string of_entry = said.substr(at, said.find("Compiling entry", at) - at);
        j.registers = number_before(of_entry, " registers");
        j.spilled_bytes = number_before(of_entry, " bytes spill stores");
    }
}

std::vector<std::string> LaunchReport::lines(int kernel) {
    std::vector<std::string> lines;
    for (const auto &[l, registers, spilled] : judged(kernel)) {
        const Occupancy o = occupancy(l, registers, capability_);
        lines.push_back(fmt::format(
            "launches {} blocks of {} threads; loads {}; stores {}{}; {} registers{}; {} of {} warps, by {}",
            size_in_words(l.blocks), size_in_words(l.threads), accesses_in_words(l.loads), accesses_in_words(l.stores),
            l.shared_bytes ? fmt::format("; {} B shared", l.shared_bytes) : "", registers,
            spilled ? fmt::format(", {} B spilled", spilled) : "", o.warps, o.most_warps, o.limit));
    }
    return lines;
}

json LaunchReport::to_json(int kernel) {
    json list = json::array();
    for (const auto &[l, registers, spilled] : judged(kernel)) {
        const Occupancy o = occupancy(l, registers, capability_);
        list.push_back({{"entry", l.entry},
                        {"blocks", l.blocks},
                        {"threads", l.threads},
                        {"shared_bytes", l.shared_bytes},
                        {"loads", accesses_json(l.loads)},
                        {"stores", accesses_json(l.stores)},
                        {"registers", registers},
                        {"spilled_bytes", spilled},
                        {"occupancy", o.share()},
                        {"limit", o.limit}});
        if (ptxas_.empty()) list.back().erase("spilled_bytes");
    }
    return list;
}

std::string LaunchReport::legend() const {
    return fmt::format(
        "launches: of one call. loads, stores: instructions of its PTX on the GPU's memory, by the bytes "
        "of a thread. warps: that a multiprocessor of {} runs at once, and what it has no more of; "
        "registers: {}. sectors: of 32 bytes, were each byte moved once.",
        target_, ptxas_.empty() ? "the most that the block leaves, as there is no ptxas here" : "by ptxas");
}

}  // namespace cryolite
