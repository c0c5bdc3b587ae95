#include "apps/cryolite/explain/loops/llvm_tools.h"

#include <unistd.h>

#include <cstdlib>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/io/error.h"
#include "runtime/system/process.h"

namespace cryolite {

using nlohmann::json;

namespace {

constexpr int oldest = 19, newest = 30;  // older ones lack models of current processors, or parts of them
constexpr double time_limit = 120;
constexpr int iterations = 32;  // of a simulated loop, so that its beginning hardly counts

bool on_path(const std::string &command) {
    const char *path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
        if (access((fs::path(folder) / command).c_str(), X_OK) == 0) return true;
    return false;
}

/// "Debian LLVM version 19.1.7" -> 19
int version_of(const std::string &command) {
    const ProcessResult r = run_process({.argv = {command, "--version"}, .time_limit = time_limit});
    const std::string words = "LLVM version ";
    const size_t at = r.output.find(words);
    return at == std::string::npos ? 0 : std::atoi(r.output.c_str() + at + words.size());
}

std::string run(std::vector<std::string> argv, const std::string &subject,
                const std::function<bool(std::string_view)> &on_line = {}) {
    const std::string tool = argv[0];
    const ProcessResult r = run_process({.argv = std::move(argv), .time_limit = time_limit, .on_line = on_line});
    if (!r.ok()) fail("{} failed on {}: {}\n{}", tool, subject, how_it_ended(r), last_lines(r.errors));
    return r.output;
}

/// The multiply-adds of a loop alone, between registers.
std::string only_fmas(const SumLoop &loop) {
    std::string text;
    int n = 0;
    for (const std::string &fma : loop.fmas) {
        const char width = fma.at(fma.rfind("mm") - 1);  // "%zmm5 {%k1}"
        text += fmt::format("{} %{}mm0, %{}mm1, %{}mm{}\n", fma.substr(0, fma.find(' ')), width, width, width,
                            2 + n++ % 14);
    }
    return text;
}

}  // namespace

const char *const install_llvm_tools = "needs llvm-objdump and llvm-mca of LLVM 19 or newer on PATH: install the "
                                       "package llvm-19 (or what your system calls it)";

std::optional<LlvmTools> find_llvm_tools() {
    for (int version = newest; version >= oldest; version--) {
        const std::string ending = fmt::format("-{}", version);
        if (on_path("llvm-objdump" + ending) && on_path("llvm-mca" + ending))
            return LlvmTools{"llvm-objdump" + ending, "llvm-mca" + ending};
    }
    if (on_path("llvm-objdump") && on_path("llvm-mca") && version_of("llvm-mca") >= oldest)
        return LlvmTools{"llvm-objdump", "llvm-mca"};
    return std::nullopt;
}

std::vector<SumLoop> sum_loops(const LlvmTools &tools, const fs::path &object) {
    ListingReader reader;
    run({tools.objdump, "-d", "--no-show-raw-insn", object}, object.string(), [&](std::string_view line) {
        reader.line(line);
        return true;
    });
    return reader.loops();
}

std::vector<LoopSpeed> predict(const LlvmTools &tools, const std::vector<SumLoop> &loops,
                               const std::string &processor) {
    if (loops.empty()) return {};
    std::string text;
    auto region = [&](const std::string &body) { text += fmt::format("# LLVM-MCA-BEGIN\n{}\n# LLVM-MCA-END\n", body); };
    for (const SumLoop &l : loops) {
        region(fmt::format("{}", fmt::join(l.code, "\n")));
        region(only_fmas(l));
    }
    const TemporaryFolder folder(fs::temp_directory_path() / "cryolite-loops");
    const fs::path file = folder.path() / "loops.s";
    write_file_atomic(file, text);
    const std::string output =
        run({tools.mca, "-mtriple=x86_64", "-mcpu=" + processor, "--json", fmt::format("--iterations={}", iterations),
             "--instruction-info=0", "--resource-pressure=0", file},
            fmt::format("{} loops for {}", loops.size(), processor));
    std::vector<LoopSpeed> speeds;
    try {
        const json j = json::parse(output);
        const json &regions = j.at("CodeRegions");
        for (size_t i = 0; i < loops.size(); i++) {
            auto of_region = [&](size_t k, const char *what) {
                return regions.at(k).at("SummaryView").at(what).get<double>();
            };
            speeds.push_back({.processor = j.at("TargetInfo").at("CPUName"),
                              .cycles = of_region(2 * i, "BlockRThroughput"),
                              .fma_cycles = of_region(2 * i + 1, "BlockRThroughput"),
                              .run_cycles = of_region(2 * i, "TotalCycles") / iterations});
        }
    } catch (const json::exception &e) {
        fail("{} printed something else than expected ({}): {}", tools.mca, e.what(), last_lines(output));
    }
    return speeds;
}

}  // namespace cryolite
