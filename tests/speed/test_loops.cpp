// The inner loops of the shipped schedules of products and attention, for three processors: what LLVM's tools say of
// them depends on no clock. Kernels for processors that are not here are compiled, not run.

#include "apps/cryolite/explain/loops/llvm_tools.h"
#include "runtime/plan/bundle.h"
#include "runtime/system/process.h"
#include "tests/runtime/scratch.h"
#include "tests/support/slow.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace cryolite::test {

namespace {

struct Processor {
    const char *name, *target;  ///< as llvm-mca and as Halide call it
    double ports;               ///< multiply-adds of whole registers in a cycle: the model has no fewer
};

const Processor zen4{
    "znver4", "x86-64-linux-avx-avx2-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-f16c-fma-sse41-tune_znver4",
    1};
const Processor sapphire_rapids{
    "sapphirerapids",
    "x86-64-linux-avx-avx2-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids-f16c-fma-sse41",
    1};
// LLVM 19 gives Sapphire Rapids one port for multiply-adds of 512 bits, as if it had not the second one, port 5.
// Skylake's model has both; six instructions and two loads of 512 bits a cycle are the same on both.
const Processor two_ports{"skylake-avx512", sapphire_rapids.target, 2};
const Processor haswell{"haswell", "x86-64-linux-avx-avx2-f16c-fma-sse41", 2};

struct Model {
    const char *name, *sizes;
};
const Model models[] = {{"nano", "layers=1 heads=4 width=128 context=64 batch=12 vocab=65"},
                        {"gpt2", "layers=1 heads=12 width=768 context=64 batch=1 vocab=50257"}};

/// The tools; without them the test is skipped (ctest reads the word).
std::optional<LlvmTools> tools() {
    static const std::optional<LlvmTools> found = find_llvm_tools();
    if (!found) MESSAGE("skipped: this test " << install_llvm_tools);
    return found;
}

Plan compile(const Processor &p, const Model &model, const std::vector<std::string> &flags, const fs::path &bundle) {
    const std::string build = CRYOLITE_BINARY_DIR;
    ProcessOptions options{.argv = {build + "/generators/gpt", "--bundle", bundle, "--store", build + "/test_kernels",
                                    "--halide-target", p.target}};
    std::istringstream sizes(model.sizes);
    for (std::string size; sizes >> size;) options.argv.insert(options.argv.end(), {"--param", size});
    options.argv.insert(options.argv.end(), flags.begin(), flags.end());
    const ProcessResult result = run_process(options);
    CAPTURE(result.errors);
    REQUIRE(result.ok());
    return load_plan(bundle / "plan.json");
}

/// The share of the multiply-adds' limit that a loop must reach. Products in bf16 are judged as dot products; where
/// there are none (Haswell) each pair is widened in the loop: 0.4 to 0.6, not judged here.
constexpr double least_share = 0.9;

/// The share that a loop must reach. Where registers are few, its prefetches are left out: each takes the turn of a
/// load, and the wait for memory that it saves is not in the prediction. What counts their addresses stays.
double least_share_of(SumLoop &loop, const Processor &p) {
    constexpr double without_prefetches = 0.85;
    if (std::string_view(p.target).find("avx512") != std::string_view::npos) return least_share;
    const auto prefetches = [](const std::string &line) { return line.starts_with("prefetch"); };
    return std::erase_if(loop.code, prefetches) ? without_prefetches : least_share;
}

/// Kernels may share a loop schedule and a shape: each is judged once, named by the first call of it.
void judge(const Processor &p, const Model &model, const std::vector<std::string> &flags, size_t at_least) {
    if (!tools()) return;
    const Scratch folder;
    const Plan plan = compile(p, model, flags, folder / "bundle");
    const std::vector<SumLoop> all = sum_loops(*tools(), folder / "bundle" / "kernels.so");
    std::set<int> seen;
    for (auto &[pass, calls] : plan.plans)
        for (const PlanCall &call : calls) {
            const PlanKernel &k = plan.kernels[size_t(call.kernel)];
            if ((k.loops != "product" && k.loops != "attention") || !seen.insert(call.kernel).second) continue;
            std::vector<SumLoop> loops = main_loops(all, k.symbol);
            std::vector<double> least;
            for (SumLoop &loop : loops) least.push_back(least_share_of(loop, p));
            const std::string name =
                fmt::format("{} {} for {}: {}", model.name, fmt::join(flags, " "), p.name, call.name);
            CAPTURE(name);
            // Scores and mixed values; backward the scores again, dP, and three sums of rows.
            CHECK(loops.size() >= size_t(k.loops == "product" ? 1 : k.form == "forward" ? 2 : 5));
            const std::vector<LoopSpeed> speeds = predict(*tools(), loops, p.name);
            for (size_t i = 0; i < loops.size(); i++) {
                const std::string listing =
                    fmt::format("{}\n{} cycles, {} by the ports:\n{}", loops[i].function, speeds[i].cycles,
                                speeds[i].fma_cycles, fmt::join(loops[i].code, "\n"));
                CAPTURE(listing);
                CHECK(loops[i].spills == 0);
                CHECK(loops[i].scalar == 0);
                if (!loops[i].fmas[0].starts_with("vdp"))
                    CHECK(speeds[i].fma_cycles <= double(loops[i].fmas.size()) / p.ports);
                CHECK(speeds[i].share() >= least[i]);
            }
        }
    CHECK(seen.size() >= at_least);
}

void judge_all(const Processor &p, const std::vector<std::string> &more = {}) {
    for (const Model &model : models)
        for (const char *update : {"separate", "backward"}) {
            std::vector<std::string> flags = {"--update", update};
            flags.insert(flags.end(), more.begin(), more.end());
            judge(p, model, flags, 16);
        }
}

}  // namespace

TEST_CASE("loops: Zen 4") { judge_all(zen4); }
TEST_CASE("loops: Zen 4, bf16" * slow()) { judge_all(zen4, {"--precision", "bf16"}); }
TEST_CASE("loops: Sapphire Rapids" * slow()) { judge_all(sapphire_rapids); }
TEST_CASE("loops: Sapphire Rapids, bf16" * slow()) { judge_all(sapphire_rapids, {"--precision", "bf16"}); }
TEST_CASE("loops: Sapphire Rapids with both of its ports" * slow()) { judge_all(two_ports); }
TEST_CASE("loops: Haswell" * slow()) { judge_all(haswell); }

TEST_CASE("loops: one that loads more than its ports take falls below") {
    if (!tools()) return;
    SumLoop loop{.function = "f"};
    for (int i = 0; i < 4; i++) {
        loop.code.push_back(fmt::format("vmovups {}(%rax), %ymm8", 32 * i));
        loop.code.push_back(fmt::format("vbroadcastss {}(%rcx), %ymm9", 4 * i));
        loop.code.push_back(fmt::format("vfmadd231ps %ymm8, %ymm9, %ymm{}", i));
        loop.fmas.push_back(loop.code.back());
    }
    loop.code.push_back("jne 0x0");
    const LoopSpeed speed = predict(*tools(), {loop}, "haswell").at(0);
    CHECK(speed.processor == "haswell");
    CHECK(speed.fma_cycles == 2);
    CHECK(speed.cycles >= 4);  // eight loads, two in a cycle
    CHECK_ERROR(predict(*tools(), {{.function = "f", .code = {"nonsense %eax"}}}, "haswell"), "nonsense");
}

}  // namespace cryolite::test
